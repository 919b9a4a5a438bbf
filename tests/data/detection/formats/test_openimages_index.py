import json

import numpy as np
import pytest
from PIL import Image

from equigrad.data.detection.dataset import DetectionDataset
from equigrad.data.detection.formats.openimages import (
    BOXES_FILE,
    CLASSES_FILE,
    HIERARCHY_FILE,
    LABELS_FILE,
    read_openimages,
)
from equigrad.data.detection.formats.openimages_index import indexed_openimages
from equigrad.evaluation.detection.openimages import OpenImagesEvaluator


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIGRAD_CACHE", str(tmp_path / "cache"))
    (tmp_path / CLASSES_FILE).write_text("/m/0jbk,Animal\n/m/0bt9lr,Dog\n")
    tree = {
        "LabelName": "/m/0bl9f",
        "Subcategory": [{"LabelName": "/m/0jbk", "Subcategory": [{"LabelName": "/m/0bt9lr"}]}],
    }
    (tmp_path / HIERARCHY_FILE).write_text(json.dumps(tree))
    (tmp_path / BOXES_FILE.format(split="validation")).write_text(
        "ImageID,LabelName,XMin,XMax,YMin,YMax,IsGroupOf\nbb,/m/0jbk,0,0.5,0,1,0\naa,/m/0bt9lr,0.1,0.2,0.3,0.4,1\n"
    )
    (tmp_path / LABELS_FILE.format(split="validation")).write_text(
        "ImageID,LabelName,Confidence\naa,/m/0bt9lr,1\nbb,/m/0bt9lr,0\ncc,/m/0jbk,1\n"
    )
    write_images(tmp_path, (40, 20))
    return tmp_path


def write_images(root, size):
    (root / "images").mkdir(exist_ok=True)
    for name in ("aa", "bb", "cc"):
        Image.new("RGB", size).save(root / "images" / f"{name}.jpg")


def index_file(root):
    (index,) = (root / "cache").glob("*.index")
    return index


def assert_same(found, expected):
    for name in ("offsets", "boxes", "labels", "areas", "ids", "widths", "heights", "has_area", "instance_counts"):
        np.testing.assert_array_equal(getattr(found.detection, name), getattr(expected.detection, name), err_msg=name)
    for name in ("image_names", "is_group_of"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    for name in ("positive", "negative"):
        for image in range(3):
            assert getattr(found, name)[image].tolist() == getattr(expected, name)[image].tolist()
    assert found.mids == expected.mids
    np.testing.assert_array_equal(found.hierarchy.is_ancestor, expected.hierarchy.is_ancestor)
    assert list(found.detection.file_names) == list(expected.detection.file_names)


def test_the_second_start_maps_boxes_labels_and_image_sizes(root, capsys):
    expected = read_openimages(root, "validation", images=root / "images")
    for lines in (1, 0):
        found = indexed_openimages(root, "validation", images=root / "images", min_bytes=0)
        assert_same(found, expected)
        assert len(capsys.readouterr().err.splitlines()) == lines
    assert not found.detection.boxes.flags.owndata
    image, target = DetectionDataset(found.detection, root / "images")[1]
    assert (image.shape, target["boxes"].tolist()) == ((3, 20, 40), [[0, 0, 20, 20]])
    evaluator = OpenImagesEvaluator(found, [3, 4])
    evaluator.add([{"boxes": np.array([[0, 0, 20.0, 20]]), "scores": [0.5], "labels": [0]}], [{"image_id": 1}])
    assert evaluator.result()["AP"] > 0
    assert len(found.with_ancestors().detection.labels) == 3


def test_images_of_other_sizes_make_a_new_index(root, capsys):
    indexed_openimages(root, "validation", images=root / "images", min_bytes=0)
    write_images(root, (60, 30))
    found = indexed_openimages(root, "validation", images=root / "images", min_bytes=0)
    assert found.detection.widths.tolist() == [60] * 3
    assert "images have other sizes now" in capsys.readouterr().err


@pytest.mark.parametrize("name", [CLASSES_FILE, LABELS_FILE.format(split="validation")])
def test_a_change_of_any_file_makes_a_new_index(name, root):
    indexed_openimages(root, "validation", images=root / "images", min_bytes=0)
    changed = (root / name).read_text().replace("/m/0bt9lr", "/m/x").replace("/m/0jbk", "/m/0bt9lr")
    (root / name).write_text(changed.replace("/m/x", "/m/0jbk"))
    found = indexed_openimages(root, "validation", images=root / "images", min_bytes=0)
    assert_same(found, read_openimages(root, "validation", images=root / "images"))
    assert index_file(root).exists()


def test_missing_files_are_named_as_without_an_index(root):
    with pytest.raises(FileNotFoundError, match="challenge-2019-train-detection-bbox"):
        indexed_openimages(root, "train", images=root / "images", min_bytes=0)
    with pytest.raises(ValueError, match="pass images"):
        indexed_openimages(root, "validation", min_bytes=0)


def test_sizes_of_a_table_are_part_of_the_index(root):
    for width in (10, 12):
        (root / "sizes.csv").write_text(f"ImageID,Width,Height\naa,{width},5\nbb,{width},5\ncc,{width},5\n")
        for _ in range(2):
            data = indexed_openimages(root, "validation", sizes=root / "sizes.csv", min_bytes=0)
            assert data.detection.widths.tolist() == [width] * 3
