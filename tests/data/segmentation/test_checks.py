import shutil

import numpy as np
import pytest
from PIL import Image

from equigrad.data.segmentation.category_pixels import count_pixels
from equigrad.data.segmentation.checks import check_label_maps, check_segmentation, describe
from equigrad.data.segmentation.readers import read_label_folders
from segmentation_on_disk import write_set

MAPS = {"a": [[0, 1], [1, 2]], "b": [[1, 1], [255, 1]]}


def read(folder, names=None):
    return read_label_folders("images", "labels", names or folder / "classes.txt", root=folder)


@pytest.fixture
def folder(tmp_path):
    return write_set(tmp_path / "train", MAPS)


def only(findings, kind, severity="error"):
    (finding,) = findings
    assert kind in finding.kind
    assert finding.severity == severity
    return finding


def test_good_data_has_no_findings(folder, tmp_path):
    test = write_set(tmp_path / "test", {"c": [[0, 1, 2]]})
    assert check_segmentation(read(folder), read(test), decode=True) == []


def test_an_object_with_the_ignored_value_is_not_lost_in_silence(folder):
    for file in (folder / "labels").iterdir():
        Image.fromarray(np.where(np.eye(2), 255, 0).astype(np.uint8)).save(file)
    finding = next(each for each in check_label_maps(read(folder)) if "single category" in each.kind)
    assert finding.severity == "error"
    assert "50.0% of the pixels have the value 255, which is ignored" in str(finding)


def test_wrong_values_colours_and_damage_are_counted(folder):
    Image.new("RGB", (2, 2), (128, 64, 128)).save(folder / "labels/a.png")
    (folder / "labels/b.png").write_bytes(b"no image")
    finding = check_label_maps(read(folder))[0]
    assert (finding.severity, finding.count, "cannot be used" in finding.kind) == ("error", 2, True)
    assert "a.png: expected one channel" in finding.first


def test_an_image_of_another_size_is_found(folder):
    Image.new("RGB", (3, 2)).save(folder / "images/b.png")
    finding = only(check_label_maps(read(folder)), "of another size")
    assert "labels/b.png: 2 x 2 pixels, but its image" in finding.first


def test_truncated_images_are_found_when_asked(folder):
    file = folder / "images/b.png"
    file.write_bytes(file.read_bytes()[:-30])
    assert check_label_maps(read(folder)) == []
    assert "b.png" in only(check_label_maps(read(folder), decode=True), "images that cannot be used").first


def test_categories_and_images_without_pixels_are_found(tmp_path):
    folder = write_set(tmp_path, {"a": [[0, 1]], "b": [[255, 255]]})
    unlabelled, absent = check_label_maps(read(folder))
    assert (unlabelled.severity, absent.severity) == ("note", "note")
    assert unlabelled.first.endswith("labels/b.png")
    assert absent.first == "tram (label 2)"


def test_images_listed_twice_are_found(folder):
    finding = only(check_label_maps(read(folder).subset([0, 1, 0])), "more than once", "note")
    assert (finding.count, finding.first) == (1, "a")


def test_test_images_from_the_training_set_are_found_under_any_name(folder, tmp_path):
    test = write_set(tmp_path / "test", {"c": MAPS["a"]})
    shutil.copy(folder / "images/a.png", test / "images/c.png")
    assert "by content" in only(check_segmentation(read(folder), read(test)), "also in training").kind
    assert check_segmentation(read(folder), read(test), by_content=False) == []
    kinds = [finding.kind for finding in check_segmentation(read(folder), read(folder))]
    assert any(kind.endswith("by path") for kind in kinds)


def test_other_category_names_are_found(folder, tmp_path):
    test = write_set(tmp_path / "test", {"c": [[0, 1, 2]]})
    findings = check_segmentation(read(folder), read(test, ["road", "sky", "cart"]))
    assert "other category names" in only(findings, "names").kind


def test_a_description_has_the_rarest_last(folder):
    data = read(folder)
    lines = describe(data, count_pixels(data)).splitlines()
    assert lines[0].endswith("2 images, 3 categories, 3 of them present")
    assert lines[1] == "ignored pixels: 12.5%"
    assert lines[2].endswith("over those of the rarest: 5")
    assert lines[4].split() == ["sky", "5", "71.429%", "2"]
    assert lines[-1].split() == ["tram", "1", "14.286%", "1"]


def test_categories_that_the_test_set_does_not_have_are_found(folder, tmp_path):
    test = write_set(tmp_path / "test", {"c": [[0, 1, 1]]})
    finding = only(
        [item for item in check_segmentation(read(folder), read(test)) if item.severity == "warning"],
        "does not have",
        "warning",
    )
    assert finding.first.endswith("with 1 training pixels")
