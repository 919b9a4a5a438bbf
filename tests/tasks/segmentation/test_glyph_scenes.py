from dataclasses import replace

import numpy as np
import pytest

from equigrad.data.frequency import exponential_profile
from equigrad.tasks.segmentation.data import training_pixels
from equigrad.tasks.segmentation.glyph_scenes import GlyphScenes

SMALL = GlyphScenes(num_glyphs=4, max_count=20, imbalance_factor=10, test_count=5)


def test_glyph_scenes_are_long_tailed_and_the_same_for_the_same_seed():
    train_set, test_set = SMALL.load()
    pixels = training_pixels(train_set, 0)
    assert pixels[0] > pixels[1] > pixels[-1] > 0  # background first
    assert test_set.class_names[0] == "background"
    again, _ = SMALL.load()
    np.testing.assert_array_equal(again.data.read_labels(3), train_set.data.read_labels(3))
    assert again.fingerprint() == train_set.fingerprint()
    other, _ = replace(SMALL, seed=1).load()
    assert other.fingerprint() != train_set.fingerprint()


def test_a_scene_that_is_not_there_is_named():
    train_set, _ = SMALL.load()
    with pytest.raises(FileNotFoundError, match=r"glyph scenes of train\[x\]: no such image"):
        train_set.data.store.read("x")
    assert train_set.data.store.size("x") is None


def test_every_glyph_is_drawn_as_often_as_its_count_says():
    train_set, test_set = SMALL.load()
    counts = exponential_profile(4, 20, 10)
    for dataset, expected in ((train_set, counts), (test_set, [5] * 4)):
        shown = np.zeros(5, dtype=np.int64)
        for index in range(len(dataset)):
            shown[np.unique(dataset.data.read_labels(index))] += 1
        assert shown[0] == len(dataset)  # each scene has background
        assert (shown[1:] <= expected).all()  # a scene may have a glyph twice, and one may hide another
        assert (shown[1:] > 0).all()


def test_image_and_label_map_have_the_size_that_is_set_and_the_test_sees_them_as_they_are():
    train_set, test_set = GlyphScenes(num_glyphs=2, max_count=3, test_count=1, image_size=40).load()
    assert train_set.data.read_image(0).size == (40, 40)
    for dataset in (train_set, test_set):
        image, targets = dataset[0]
        assert (tuple(image.shape), tuple(targets["labels"].shape)) == ((3, 40, 40), (40, 40))
    np.testing.assert_array_equal(test_set[0][1]["labels"].numpy(), test_set.data.read_labels(0))


def test_pixels_of_a_glyph_look_other_than_the_background():
    train_set, _ = GlyphScenes(num_glyphs=2, max_count=3, test_count=1, difficulty=0.0).load()
    pixels, labels = np.array(train_set.data.read_image(0)).astype(float), train_set.data.read_labels(0)
    glyph, ground = pixels[labels > 0].mean(), pixels[labels == 0].mean()
    assert abs(glyph - ground) > 20
