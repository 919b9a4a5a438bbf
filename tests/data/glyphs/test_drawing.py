import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from equigrad.data.glyphs import drawing
from equigrad.data.glyphs.drawing import BITMAP_SIDE, MIN_DISTANCE, GlyphSet, choose_glyphs


def category_distances(glyphs):
    """(C, C) distance between the nearest drawings of two categories, in the nearest pose; the diagonal is zero."""
    owners = np.repeat(np.arange(len(glyphs)), [len(category) for category in glyphs.drawings])
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    upright = drawing._upright(bitmap for category in glyphs.drawings for bitmap in category)
    rows = []
    for category in glyphs.drawings:
        distances = np.minimum.reduce([drawing._distances(bitmap, upright) for bitmap in category])
        rows.append(np.minimum.reduceat(distances, starts))
    distances = np.stack(rows)
    np.fill_diagonal(distances, 0)
    return np.minimum(distances, distances.T)


def nearest(glyphs):
    distances = category_distances(glyphs)
    return distances[~np.eye(len(glyphs), dtype=bool)].min()


def test_no_two_of_the_1203_categories_look_alike():
    glyphs = choose_glyphs(1203, 1)
    assert len(set(glyphs.names)) == 1203
    assert nearest(glyphs) >= MIN_DISTANCE


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
    assert np.median(category_distances(glyphs)) > 3 * MIN_DISTANCE


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


def test_another_process_makes_the_same_choice_and_imports_matplotlib_only_for_it():
    code = """
import sys
from equigrad.data.glyphs.files import write_detection
from equigrad.data.glyphs.drawing import choose_glyphs
assert "matplotlib" not in sys.modules
print(*map(ord, choose_glyphs(60, 1).characters))
assert "matplotlib.pyplot" not in sys.modules
"""
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert [chr(int(code)) for code in output.split()] == list(choose_glyphs(60, 1).characters)
