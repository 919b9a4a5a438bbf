from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from equigrad.data.frequency import load_frequencies
from equigrad.data.images.published_lists import PUBLISHED, read_published
from equigrad.data.images.readers import read_images
from equigrad.tasks.classification.data import GlyphImages, ManyLabels, OwnImages, PublishedImages
from equigrad.tasks.smoke_test.generated_images import (
    IMAGE_SIZE,
    benchmark_counts,
    generated_images,
    write_benchmark,
    write_folders,
)

SIZES = {"imagenet_lt": 115_846, "places_lt": 62_500, "inaturalist18": 437_513}


@pytest.mark.parametrize("benchmark", ["imagenet_lt", "places_lt"])
def test_generated_benchmarks_have_the_published_layout_categories_and_size(benchmark, tmp_path):
    write_benchmark(benchmark, tmp_path / benchmark)
    train = read_published(benchmark, tmp_path / benchmark, "train")
    assert len(train) == SIZES[benchmark]
    assert (train.category_counts > 0).sum() == PUBLISHED[benchmark].num_classes
    test = read_published(benchmark, tmp_path / benchmark, "test")
    assert test.store.read(test.paths[-1]).mode == "RGB"
    assert not set(test.paths) & set(train.paths)


@pytest.mark.parametrize("benchmark", SIZES)
def test_counts_are_long_tailed_with_the_published_numbers_of_categories_and_images(benchmark):
    counts = benchmark_counts(benchmark)
    assert (len(counts), counts.sum()) == (PUBLISHED[benchmark].num_classes, SIZES[benchmark])
    assert counts.min() >= 1
    assert counts.max() >= 100 * counts.min()


def test_counts_of_places_lt_are_the_real_ones():
    np.testing.assert_array_equal(benchmark_counts("places_lt"), load_frequencies("places_lt").image_counts)


def test_a_stand_in_for_a_benchmark_keeps_its_settings_and_is_written_once(tmp_path):
    data = PublishedImages("places_lt", root=Path("real"), lists=Path("lists"), color_jitter=0.1)
    generated = generated_images(data, tmp_path)
    assert generated == replace(data, root=tmp_path / "places_lt", lists=None, size=IMAGE_SIZE)
    written = (generated.root / "Places_LT_train.txt").stat().st_mtime_ns
    assert generated_images(data, tmp_path) == generated
    assert (generated.root / "Places_LT_train.txt").stat().st_mtime_ns == written
    train_set, test_set = generated.load()
    assert train_set[0][0].shape == test_set[0][0].shape == (3, IMAGE_SIZE, IMAGE_SIZE)


def test_a_users_folders_have_a_few_images_of_three_categories(tmp_path):
    generated = generated_images(OwnImages(root=Path("elsewhere"), photographs=False), tmp_path)
    assert (generated.root, generated.photographs, generated.size) == (None, False, IMAGE_SIZE)
    train_set, test_set = generated.load()
    assert train_set.category_counts.tolist() == [6, 3, 1]
    assert test_set.category_counts.tolist() == [1, 1, 1]


def test_folders_hold_as_many_readable_images_as_asked_for(tmp_path):
    write_folders(tmp_path, [2, 20])
    images = read_images(tmp_path)
    assert (images.class_names, images.category_counts.tolist()) == (("category_0", "category_1"), [2, 20])
    assert {images.store.read(path).size for path in images.paths} == {(2 * IMAGE_SIZE, 2 * IMAGE_SIZE)}


def test_images_that_draw_themselves_stay_as_they_are(tmp_path):
    data = GlyphImages(num_classes=3)
    assert generated_images(data, tmp_path) is data
    assert not list(tmp_path.iterdir())


def test_images_with_several_categories_are_written_with_their_file(tmp_path):
    train_set, test_set = generated_images(ManyLabels(), tmp_path).load()
    assert train_set.labels.tolist() == test_set.labels.tolist() == [[1, 1], [1, 0], [1, 0], [0, 0]]
    assert train_set[0][0].shape == (3, IMAGE_SIZE, IMAGE_SIZE)
