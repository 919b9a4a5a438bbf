import sys

import numpy as np
import pytest
from PIL import Image

from equigrad.data.glyphs import drawing
from equigrad.data.glyphs.drawing import BITMAP_SIDE, MIN_DISTANCE, GlyphSet, choose_glyphs
from quick_processes import quick_context


def distances_to_others(glyphs, category, upright):
    """Distance from a category to each other one: of their nearest drawings, in the nearest pose."""
    owners = np.repeat(np.arange(len(glyphs)), [len(drawings) for drawings in glyphs.drawings])
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    distances = [drawing._distances(bitmap, upright) for bitmap in glyphs.drawings[category]]
    return np.delete(np.minimum.reduceat(np.minimum.reduce(distances), starts), category)


def all_distances(glyphs, categories=None):
    """Distances from some categories, or all, to all others, as rows."""
    upright = drawing._upright(bitmap for drawings in glyphs.drawings for bitmap in drawings)
    return np.stack([distances_to_others(glyphs, row, upright) for row in categories or range(len(glyphs))])


def nearest(glyphs):
    return all_distances(glyphs).min()


def test_no_two_of_the_1203_categories_look_alike():
    glyphs = choose_glyphs(1203, 1)
    assert len(set(glyphs.names)) == 1203
    # Each was the farthest of all that were left, so the last ones are nearest to others.
    assert all_distances(glyphs, range(903, 1203)).min() >= MIN_DISTANCE


def test_more_fonts_vary_a_category_without_bringing_categories_together():
    glyphs = choose_glyphs(200, 4)
    assert sum(len(drawings) > 1 for drawings in glyphs.drawings) > 100
    assert nearest(glyphs) >= MIN_DISTANCE


def test_fewer_categories_are_the_first_of_many_and_more_distinct():
    few, many = choose_glyphs(60, 1), choose_glyphs(200, 1)
    assert many.characters[:60] == few.characters
    assert nearest(few) > nearest(many)


@pytest.mark.parametrize(
    "change",
    [
        lambda picture: picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        lambda picture: picture.rotate(30, Image.Resampling.BILINEAR),
        lambda picture: picture.rotate(-30, Image.Resampling.BILINEAR),
        lambda picture: picture.resize((round(picture.width * 0.9), picture.height)),
    ],
    ids=["mirrored", "turned left", "turned right", "narrower"],
)
def test_what_a_scene_or_training_does_to_a_glyph_keeps_it_near_itself(change):
    # An L has no symmetry that could hide a pose which is not looked at.
    letter = np.zeros((96, 96), dtype=np.uint8)
    letter[16:80, 28:40] = letter[68:80, 28:68] = 255
    changed = np.array(change(Image.fromarray(letter)))
    assert nearest(GlyphSet(("a", "b"), ((letter,), (changed,)))) < MIN_DISTANCE / 2


def test_distance_is_large_between_letters_that_differ_in_shape():
    glyphs = choose_glyphs(60, 1)
    assert np.median(all_distances(glyphs)) > 3 * MIN_DISTANCE


def test_well_known_look_alikes_are_never_chosen_together():
    characters = choose_glyphs(1203, 1).characters
    for lookalikes in ("bd", "oO0", "pq", "()", "AΑА", "sS", "xX×"):
        assert sum(character in lookalikes for character in characters) <= 1


def test_too_many_categories_are_refused_with_the_number_possible():
    with pytest.raises(ValueError, match=r"at most 1\d\d\d, got 4000"):
        choose_glyphs(4000, 1)


@pytest.mark.parametrize("arguments", [(0, 1), (5, 0), (5, 7)])
def test_impossible_choices_are_refused(arguments):
    with pytest.raises(ValueError, match="num_categories must be"):
        choose_glyphs(*arguments)


def test_names_are_unicode_names_in_snake_case():
    names = choose_glyphs(1203, 1).names
    assert names[0] == "latin_capital_letter_a"
    assert all(name.isidentifier() and name == name.lower() for name in names)


def test_bitmaps_are_tight_and_of_equal_size():
    for bitmap, *_ in choose_glyphs(100, 1).drawings:
        assert max(bitmap.shape) == BITMAP_SIDE
        assert all(edge.any() for edge in (bitmap[0], bitmap[-1], bitmap[:, 0], bitmap[:, -1]))


def choose_elsewhere(queue):
    for cached in (choose_glyphs, drawing._order, drawing._candidates):  # the server of the processes has chosen too
        cached.cache_clear()
    sys.modules.pop("matplotlib.pyplot", None)
    queue.put("".join(choose_glyphs(60, 1).characters))
    queue.put("matplotlib.pyplot" in sys.modules)


def test_another_process_makes_the_same_choice_without_pyplot():
    queue = quick_context().SimpleQueue()  # its processes have other hashes, so sets have another order
    process = quick_context().Process(target=choose_elsewhere, args=(queue,))
    process.start()
    assert queue.get() == "".join(choose_glyphs(60, 1).characters)
    assert not queue.get()
    process.join(60)
