from dataclasses import replace

import numpy as np
import pytest

from equigrad.data.glyphs.drawing import choose_glyphs
from equigrad.data.glyphs.scenes import BACKGROUND_OWNER, PORTRAIT, SCENE, SceneStyle, render_scene, scene_rng

PLAIN = SCENE.at_difficulty(0)


@pytest.fixture(scope="module")
def glyphs():
    return choose_glyphs(20, 2)


def draw(glyphs, labels, style=SCENE, index=0):
    return render_scene(glyphs, labels, style, scene_rng(0, "train", index))


def test_the_same_seed_split_and_index_give_the_same_scene(glyphs):
    first, again = draw(glyphs, [1, 2, 3]), draw(glyphs, [1, 2, 3])
    assert np.array_equal(first.image, again.image)
    assert np.array_equal(first.owners, again.owners)


def test_another_seed_split_or_index_gives_another_scene(glyphs):
    keys = [(0, "train", 0), (1, "train", 0), (0, "val", 0), (0, "test", 0), (0, "train", 1)]
    images = {render_scene(glyphs, [1, 2], SCENE, scene_rng(*key)).image.tobytes() for key in keys}
    assert len(images) == len(keys)


def test_the_layout_has_a_generator_of_its_own():
    assert scene_rng(0, "train").random() != scene_rng(0, "train", 0).random()


def test_every_glyph_stays_visible_enough_in_crowded_hard_scenes(glyphs):
    style = replace(SCENE.at_difficulty(1), occluders=20, min_visible=0.7)
    for index in range(10):
        crowded = draw(glyphs, list(range(15)), style, index)
        visible = np.bincount(crowded.owners[crowded.owners != BACKGROUND_OWNER], minlength=15)
        assert (visible > 0).all()
        assert crowded.categories().max() == 14


def test_a_glyph_is_hidden_by_at_most_what_min_visible_allows(glyphs):
    # The first glyph is drawn alike in both scenes, since it comes first from the same generator.
    style = replace(PLAIN, glyph_size=(0.5, 0.6), min_visible=0.6)
    shares = []
    for index in range(30):
        alone, covered = draw(glyphs, [3], style, index), draw(glyphs, [3, 5, 7], style, index)
        assert not (covered.mask(0) & ~alone.mask(0)).any()
        shares.append(covered.mask(0).sum() / alone.mask(0).sum())
    assert 0.6 <= min(shares) < 1


def test_nothing_is_hidden_when_everything_must_be_visible(glyphs):
    style = replace(SCENE, min_visible=1.0, occluders=5)
    for index in range(10):
        alone, among = draw(glyphs, [3], replace(style, occluders=0), index), draw(glyphs, [3, 5, 7], style, index)
        assert np.array_equal(alone.mask(0), among.mask(0))


def test_what_a_bar_hides_is_not_in_the_mask(glyphs):
    style = replace(SCENE, noise=0.0, occluders=8, min_visible=0.3)
    hidden = 0
    for index in range(10):
        bare, barred = (draw(glyphs, [6], replace(style, occluders=number), index) for number in (0, 8))
        untouched = (bare.image == barred.image).all(2)
        assert not (barred.mask(0) & ~untouched).any()
        hidden += np.count_nonzero(bare.mask(0) & ~barred.mask(0))
    assert hidden > 0


def test_masks_lie_on_the_drawn_ink(glyphs):
    style = replace(PLAIN, texture=0.0)
    for index in range(10):
        scene = draw(glyphs, [4], style, index)
        background = scene.image[0, 0] if scene.owners[0, 0] == BACKGROUND_OWNER else scene.image[-1, -1]
        change = np.abs(scene.image.astype(int) - background).max(2)
        assert change[scene.mask(0)].min() > change.max() * 0.4
        # Outside there is at most the soft edge of the strokes.
        assert change[~scene.mask(0)].max() < change.max() * 0.6


def test_pixel_categories_are_those_of_the_owners(glyphs):
    scene = draw(glyphs, [7, 2, 7])
    for index, label in enumerate([7, 2, 7]):
        assert (scene.categories()[scene.mask(index)] == label).all()
    assert (scene.categories()[scene.owners == BACKGROUND_OWNER] == -1).all()


def test_a_scene_without_glyphs_is_background(glyphs):
    scene = draw(glyphs, [])
    assert (scene.owners == BACKGROUND_OWNER).all()
    assert (scene.categories() == -1).all()


def test_portraits_are_centred(glyphs):
    for index in range(20):
        rows, columns = np.nonzero(draw(glyphs, [index], replace(PORTRAIT, spread=0.0, occluders=0), index).mask(0))
        middle = (PORTRAIT.image_size - 1) / 2
        assert abs((rows.min() + rows.max()) / 2 - middle) <= 2
        assert abs((columns.min() + columns.max()) / 2 - middle) <= 2


def test_glyphs_have_the_size_asked_for(glyphs):
    style = replace(PLAIN, glyph_size=(0.3, 0.3))
    for index in range(20):
        rows, columns = np.nonzero(draw(glyphs, [index], style, index).mask(0))
        longer = max(np.ptp(rows), np.ptp(columns)) + 1
        assert abs(longer - 0.3 * style.image_size) <= 3


def test_noise_has_the_deviation_asked_for(glyphs):
    quiet, loud = (draw(glyphs, [1], replace(PLAIN, noise=noise)).image.astype(float) for noise in (0, 10))
    unclipped = (quiet > 40) & (quiet < 215)
    assert (loud - quiet)[unclipped].std() == pytest.approx(10, rel=0.05)


@pytest.mark.parametrize("image_size", [32, 300])
def test_any_image_size_can_be_drawn(glyphs, image_size):
    scene = draw(glyphs, [1], replace(PORTRAIT, image_size=image_size))
    assert scene.image.shape == (image_size, image_size, 3)


def test_a_scene_with_no_room_left_says_so(glyphs):
    style = replace(SCENE, image_size=32, glyph_size=(0.8, 0.85), min_visible=1.0)
    with pytest.raises(ValueError, match=r"glyph \d+ of a scene does not fit"):
        draw(glyphs, [1] * 60, style)


@pytest.mark.parametrize(
    "change",
    [
        {"rotation": 40.0},
        {"stretch": 0.5},
        {"glyph_size": (0.01, 0.5)},
        {"glyph_size": (0.5, 0.4)},
        {"min_visible": 1.5},
        {"noise": -1.0},
    ],
)
def test_styles_that_would_spoil_the_data_are_refused(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        SceneStyle(**change)


def test_difficulty_leaves_the_layout_alone_and_stays_in_bounds():
    easy, hard = PORTRAIT.at_difficulty(0), PORTRAIT.at_difficulty(1)
    assert (easy.image_size, easy.glyph_size) == (hard.image_size, hard.glyph_size)
    assert easy.contrast > hard.contrast
    assert easy.noise < hard.noise
    with pytest.raises(ValueError, match="difficulty"):
        SCENE.at_difficulty(2)
