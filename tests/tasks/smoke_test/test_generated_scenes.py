from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from equigrad.data.frequency import load_frequencies
from equigrad.data.segmentation.readers import read_ade20k, read_camvid, read_label_folders
from equigrad.tasks.segmentation.data import Ade20k, CamVid, LabelFolders
from equigrad.tasks.segmentation.glyph_scenes import GlyphScenes
from equigrad.tasks.smoke_test.generated_scenes import (
    CROP_SIZE,
    generated_scenes,
    write_ade20k,
    write_camvid,
    write_label_folders,
)


def categories_of(data):
    """All categories that some pixel has; labels that are no category are negative."""
    labels = np.concatenate([data.read_labels(index).ravel() for index in range(len(data))])
    assert labels.max() < data.num_classes
    return set(labels[labels >= 0].tolist())


def test_ade20k_is_read_with_its_150_categories(tmp_path):
    write_ade20k(tmp_path / "ade20k")
    train, test = (read_ade20k(tmp_path / "ade20k", split) for split in ("training", "validation"))
    assert (len(train), len(test)) == (8, 2)
    assert train.class_names == load_frequencies("ade20k").names
    assert len(categories_of(train)) > 100
    listed = (tmp_path / "ade20k" / "train.txt").read_text().split()
    assert set(listed) < set(train.names)


def test_camvid_is_read_with_its_31_categories_from_an_archive(tmp_path):
    write_camvid(tmp_path / "camvid")
    train, test = (read_camvid(tmp_path / "camvid", split) for split in ("train", "test"))
    assert (len(train), len(test), train.num_classes) == (8, 2, 31)
    assert categories_of(train) == set(range(31))


def test_folders_of_a_user_are_read_with_five_categories(tmp_path):
    write_label_folders(tmp_path)
    data = read_label_folders("images", "labels", tmp_path / "names.txt", root=tmp_path)
    assert (len(data), data.num_classes) == (10, 5)
    assert categories_of(data) == set(range(5))


def test_images_have_the_size_of_their_label_maps_and_not_all_the_same(tmp_path):
    write_label_folders(tmp_path)
    data = read_label_folders("images", "labels", tmp_path / "names.txt", root=tmp_path)
    sizes = [data.read_image(index).size for index in range(len(data))]
    assert sizes == [data.read_labels(index).shape[::-1] for index in range(len(data))]
    assert len(set(sizes)) == 2


@pytest.mark.parametrize(
    ("data", "num_train"),
    [(Ade20k(), 8), (Ade20k(train_list=Path("mine.txt")), 4), (CamVid(), 8), (LabelFolders(), 8)],
    ids=["ade20k", "ade20k-lt", "camvid", "own"],
)
def test_a_stand_in_loads_where_the_real_files_are_missing(data, num_train, tmp_path):
    train_set, test_set = generated_scenes(data, tmp_path).load()
    assert (len(train_set), len(test_set)) == (num_train, 2)
    image, targets = train_set[0]
    assert (tuple(image.shape), tuple(targets["labels"].shape)) == ((3, CROP_SIZE, CROP_SIZE), (CROP_SIZE, CROP_SIZE))


def test_settings_other_than_files_and_sizes_stay(tmp_path):
    ade20k, camvid = Ade20k(group_by="count"), CamVid(scale=(0.9, 1.1), group_by="index")
    assert generated_scenes(ade20k, tmp_path).group_by == "count"
    expected = replace(camvid, root=tmp_path / "camvid", crop_size=(CROP_SIZE, CROP_SIZE))
    assert generated_scenes(camvid, tmp_path) == expected


def test_files_are_written_once(tmp_path):
    first = generated_scenes(CamVid(), tmp_path)
    written = (first.root / "images_labels.zip").stat().st_mtime_ns
    assert generated_scenes(CamVid(), tmp_path) == first
    assert (first.root / "images_labels.zip").stat().st_mtime_ns == written


def test_scenes_that_draw_themselves_stay_as_they_are(tmp_path):
    data = GlyphScenes(num_glyphs=3)
    assert generated_scenes(data, tmp_path) is data
    assert not list(tmp_path.iterdir())
