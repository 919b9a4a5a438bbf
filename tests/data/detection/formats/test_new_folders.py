import os

import numpy as np
import pytest

from detection_on_disk import annotation, coco, image, write_json, write_pictures
from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.detection.formats.new_folders import Conversion, check_names, clipped_boxes, new_folder, place_images
from images_on_disk import zip_folder


@pytest.fixture
def data(tmp_path):
    write_pictures(tmp_path / "images", coco())
    return read_coco(write_json(tmp_path / "a.json", coco()))


def test_a_folder_appears_when_everything_is_in_it(tmp_path):
    with new_folder(tmp_path / "out") as fresh:
        (fresh / "a.txt").write_text("a")
        assert not (tmp_path / "out").exists()
    assert [file.name for file in tmp_path.rglob("*")] == ["out", "a.txt"]


def test_a_failure_leaves_nothing(tmp_path):
    with pytest.raises(FileNotFoundError), new_folder(tmp_path / "out") as fresh:
        (fresh / "no such folder" / "a.txt").write_text("a")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_content_is_never_written_to(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="out: expected a new or empty folder"), new_folder(tmp_path / "out"):
        pass


@pytest.mark.parametrize(("image_files", "is_link"), [(None, True), ("link", True), ("copy", False)])
def test_images_are_linked_or_copied(data, tmp_path, image_files, is_link):
    targets = [tmp_path / "new" / name for name in data.file_names]
    place_images(data, tmp_path / "images", targets, image_files)
    assert [target.is_symlink() for target in targets] == [is_link] * 2
    assert [target.read_bytes() for target in targets] == [
        (tmp_path / "images" / name).read_bytes() for name in data.file_names
    ]


def test_a_link_leads_to_the_image_from_any_folder(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place_images(data, "images", [tmp_path / "x" / name for name in data.file_names], "link")
    assert os.path.isabs(os.readlink(tmp_path / "x" / "1.png"))


def test_images_of_an_archive_are_copied_and_cannot_be_linked(data, tmp_path):
    archive = zip_folder(tmp_path / "images", tmp_path / "images.zip")
    targets = [tmp_path / "new" / name for name in data.file_names]
    with pytest.raises(ValueError, match=r"images\.zip has no files to link to; --image-files copy unpacks them"):
        place_images(data, archive, targets, "link")
    place_images(data, archive, targets, None)
    assert targets[0].read_bytes() == (tmp_path / "images" / "1.png").read_bytes()


def test_an_image_of_another_size_or_a_missing_one_is_refused(data, tmp_path):
    targets = [tmp_path / "new" / name for name in data.file_names]
    write_pictures(tmp_path / "images", {"images": [image(2, height=9)]})
    with pytest.raises(OSError, match=r"2\.png: 9 x 12, but .*a\.json says 8 x 12"):
        place_images(data, tmp_path / "images", targets, "copy")
    (tmp_path / "images" / "2.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"2\.png: no such image"):
        place_images(data, tmp_path / "images", [tmp_path / "again" / name for name in data.file_names], None)


def test_images_that_nobody_named_cannot_be_copied(data, tmp_path):
    place_images(data, None, [], None)
    with pytest.raises(ValueError, match="--image-files copy: needs --images FOLDER"):
        place_images(data, None, [], "copy")


@pytest.mark.parametrize("name", ["", "  ", " cat", "two\nlines", "\x1b[2J"])
def test_a_name_that_no_line_can_hold_is_refused(tmp_path, name):
    content = coco(categories=[{"id": 1, "name": name}, {"id": 7, "name": "dog"}])
    with pytest.raises(ValueError, match=r"a\.json: category 1: name: expected printable characters"):
        check_names(read_coco(write_json(tmp_path / "a.json", content)))


def test_boxes_end_at_the_edges_of_their_image(tmp_path):
    records = [annotation(1, box=(-3, 2, 100, 3)), annotation(2, box=(20, 20, 5, 5))]
    boxes = clipped_boxes(read_coco(write_json(tmp_path / "a.json", coco([image(1)], records))))
    np.testing.assert_array_equal(boxes, [[0, 2, 12, 5], [12, 8, 12, 8]])


def test_a_conversion_says_what_it_left_out(tmp_path):
    text = str(Conversion(tmp_path, 1200, 3, 2, {"crowds left out": 4, "boxes left out": 0}))
    assert text == f"{tmp_path}: 1,200 images, 3 annotations, 2 categories; 4 crowds left out"
