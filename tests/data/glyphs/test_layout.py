import numpy as np
import pytest

from equigrad.data.frequency import exponential_profile
from equigrad.data.glyphs.layout import GlyphData, SplitScenes, glyph_images
from equigrad.data.glyphs.scenes import PORTRAIT

COUNTS = exponential_profile(12, 60, 20)
DATA = GlyphData(COUNTS, eval_count=4, num_fonts=1)


def occurrences(scenes):
    return np.bincount(np.concatenate(scenes), minlength=12).tolist()


def test_scenes_and_portraits_hold_every_category_exactly_as_often_as_asked():
    for layout in (DATA.scenes, DATA.portraits):
        assert occurrences(layout("train")) == COUNTS.tolist()
        assert occurrences(layout("val")) == [4] * 12


def test_scenes_have_between_least_and_greatest_many_glyphs():
    numbers = [len(labels) for labels in DATA.scenes("train")]
    assert set(numbers[:-1]) == {2, 3, 4, 5, 6}
    assert 1 <= numbers[-1] <= 6


def test_images_in_memory_match_their_labels_and_the_scenes():
    images, labels = glyph_images(DATA, "test")
    assert images.shape == (48, 64, 64, 3)
    assert np.bincount(labels).tolist() == [4] * 12
    scenes = SplitScenes(DATA.glyphs(), DATA.portraits("test"), PORTRAIT, "test", seed=0)
    assert scenes[17].labels.tolist() == [labels[17]]
    assert np.array_equal(scenes[17].image, images[17])


def test_the_seed_decides_the_order():
    assert DATA.scenes("train") == GlyphData(COUNTS, eval_count=4).scenes("train")
    assert DATA.scenes("train") != GlyphData(COUNTS, seed=1).scenes("train")


def test_counts_may_be_any_sequence_and_data_compares_by_value():
    assert GlyphData(COUNTS) == GlyphData(COUNTS.tolist())
    assert hash(GlyphData(COUNTS)) == hash(GlyphData(tuple(COUNTS)))


def test_an_empty_split_has_no_images():
    images, labels = glyph_images(GlyphData([2, 1], eval_count=0), "test")
    assert (len(images), len(labels)) == (0, 0)


@pytest.mark.parametrize(
    "wrong", [{"glyphs_per_image": (0, 3)}, {"glyphs_per_image": (4, 3)}, {"eval_count": -1}, {"image_format": "gif"}]
)
def test_impossible_data_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        GlyphData(COUNTS, **wrong)
