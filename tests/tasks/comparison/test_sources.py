from pathlib import Path

import numpy as np
import pytest

from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.detection.formats.voc_writing import write_voc
from equigrad.data.detection.formats.yolo_writing import write_yolo
from equigrad.tasks.classification.data import OwnImages
from equigrad.tasks.comparison.sources import NamedFiles, assignments_of, find_source
from equigrad.tasks.detection.data import CocoFiles
from equigrad.tasks.segmentation.data import LabelFolders
from images_on_disk import write_images, write_list, zip_folder
from segmentation_on_disk import write_pair, write_set
from small_detection_data import write_small_data


def found(data, task=None, **named):
    return find_source(data, NamedFiles(**named), task)


@pytest.mark.parametrize(
    ("test", "chosen"), [(["test", "val"], "test"), (["val"], "val"), (["validation"], "validation")]
)
def test_a_folder_of_both_splits_is_trained_and_tested(tmp_path, test, chosen):
    for name in ("train", *test):
        write_images(tmp_path / name, {"cat": 1, "dog": 1})
    assert found(tmp_path) == ("classification", OwnImages(tmp_path / "train", tmp_path / chosen))


def test_without_a_test_set_a_part_is_held_out(tmp_path):
    write_images(tmp_path / "all", {"cat": 5, "dog": 2, "eel": 1})
    task, source = found(tmp_path / "all")
    assert (task, source) == ("classification", OwnImages(tmp_path / "all", None))
    train, test = source.load()
    assert (train.category_counts.tolist(), test.category_counts.tolist()) == ([4, 1, 1], [1, 1, 0])
    assert not set(train.images.paths) & set(test.images.paths)


def test_a_folder_with_a_training_split_alone_is_that_split(tmp_path):
    write_images(tmp_path / "train", {"cat": 2})
    assert found(tmp_path)[1] == OwnImages(tmp_path / "train", None)


def test_lists_and_archives_take_what_is_named(tmp_path):
    paths = write_images(tmp_path / "images", {"cat": 2, "dog": 2})
    file, archive = write_list(tmp_path / "train.txt", paths), zip_folder(tmp_path / "images", tmp_path / "images.zip")
    assert found(file, test=file, root=archive)[1] == OwnImages(file, file, archive)
    assert found(archive)[1] == OwnImages(archive, None)


def test_a_csv_file_with_one_category_each_is_classified(tmp_path):
    write_images(tmp_path, {"cat": 1, "dog": 1})
    (tmp_path / "a.csv").write_text("cat/0.png,cat\ndog/0.png,dog\n")
    assert found(tmp_path / "a.csv") == ("classification", OwnImages(tmp_path / "a.csv", None))
    assert found(tmp_path / "a.csv", "multi_label")[0] == "multi_label"
    (tmp_path / "a.csv").write_text("cat/0.png,cat;dog\ndog/0.png,dog\n")
    assert found(tmp_path / "a.csv")[0] == "multi_label"


def test_an_archive_of_both_splits_is_read_like_a_folder_of_them(tmp_path):
    for name in ("train", "test"):
        write_images(tmp_path / "all" / "photos" / name, {"cat": 2, "dog": 1})
    archive = zip_folder(tmp_path / "all", tmp_path / "all.zip")
    task, source = found(archive / "photos")
    assert (task, source) == (
        "classification",
        OwnImages(archive / "photos" / "train", archive / "photos" / "test"),
    )
    train, test = source.load()
    assert (len(train), len(test), train.class_names) == (3, 3, ("cat", "dog"))


def test_a_folder_that_an_archive_does_not_have_is_named(tmp_path):
    write_images(tmp_path / "all" / "photos", {"cat": 2, "dog": 1})
    archive = zip_folder(tmp_path / "all", tmp_path / "all.zip")
    with pytest.raises(FileNotFoundError, match="no such folder in the archive; it has photos"):
        found(archive / "photo")[1].load()


def test_the_annotations_tell_boxes_from_masks(tmp_path):
    root = write_small_data(tmp_path)
    expected = CocoFiles(root / "train.json", root / "test.json", root / "images")
    assert found(root / "train.json", test=root / "test.json") == ("instance_segmentation", expected)
    assert found(root / "train.json", "detection", test=root / "test.json") == ("detection", expected)
    with pytest.raises(FileNotFoundError, match=r"elsewhere: no such folder of images; .* --images FOLDER"):
        found(root / "train.json", images=root / "elsewhere")


def test_label_maps_may_lie_in_splits(tmp_path):
    labels = np.zeros((4, 4), dtype=np.uint8)
    write_set(tmp_path / "flat", {"a": labels})
    task, source = found(tmp_path / "flat")
    assert task == "semantic_segmentation"
    names = tmp_path / "flat" / "classes.txt"
    assert source == LabelFolders(Path("images"), Path("labels"), names, root=tmp_path / "flat")
    for split in ("train", "test"):
        write_pair(tmp_path / "splits", "a", labels, images=f"{split}/images", maps=f"{split}/labels")
    _, source = found(tmp_path / "splits", names=names)
    assert (source.images, source.test_labels) == (Path("train/images"), Path("test/labels"))
    archive = zip_folder(tmp_path / "splits", tmp_path / "splits.zip")
    _, zipped = found(archive, names=names)
    assert zipped.test_images == source.test_images
    with pytest.raises(FileNotFoundError, match="name yours with --names FILE"):
        found(archive)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("detection", r"detection needs annotations in the format of COCO or LVIS \(.json\)"),
        ("semantic_segmentation", "expected classes.csv, classes.txt or names.txt"),
    ],
)
def test_images_by_category_are_not_other_tasks(tmp_path, task, message):
    write_images(tmp_path, {"cat": 1})
    with pytest.raises((ValueError, OSError), match=message):
        found(tmp_path, task)


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere: no such file or folder of data"):
        found(tmp_path / "nowhere")


def test_assignments_rebuild_the_files():
    assert assignments_of(OwnImages(Path("a"), None)) == ["data.train=a", "data.test=none"]


@pytest.mark.parametrize(("layout", "write"), [("voc", write_voc), ("yolo", write_yolo)])
def test_objects_in_other_layouts_are_refused_with_the_command_that_converts_them(layout, write, tmp_path):
    write_small_data(tmp_path)
    write(read_coco(tmp_path / "train.json"), tmp_path / "mine", tmp_path / "images")
    with pytest.raises(ValueError, match=f"equigrad data convert {layout} .*mine .*mine.json`, and name that with"):
        found(tmp_path / "mine")
