"""`equigrad data convert`: what it says, and what it refuses."""

import json

import pytest
from PIL import Image

from commands.running_commands import equigrad
from detection_on_disk import coco, without_sizes, write_json, write_pictures
from equigrad.data.detection.formats.coco_json import read_coco


@pytest.fixture
def yolo(tmp_path):
    Image.new("RGB", (20, 10)).save(tmp_path / "a.png")
    (tmp_path / "a.txt").write_text("0 0.5 0.5 0.5 0.5")
    (tmp_path / "names.txt").write_text("cat")
    return tmp_path


@pytest.fixture
def file(tmp_path):
    write_pictures(tmp_path / "images", coco())
    return write_json(tmp_path / "a.json", coco())


def test_conversion_says_what_it_wrote(yolo):
    done = equigrad("data", "convert", "yolo", yolo, yolo / "out.json", "--names", yolo / "names.txt")
    assert done.code == 0
    assert done.out == f"{yolo / 'out.json'}: 1 images, 1 annotations, 1 categories (1 rare)\n"


def test_every_form_is_converted_to_every_other(file, tmp_path):
    steps = [("coco", file, "yolo"), ("yolo", "yolo", "voc"), ("voc", "voc", "coco")]
    for layout, source, target in steps:
        images = ["--images", "images"] if layout == "coco" else []
        done = equigrad("data", "convert", layout, source, target, "--to", target, *images, folder=tmp_path)
        assert done.code == 0, done.err
    data = read_coco(tmp_path / "coco")
    assert data.categories.names == ("cat", "dog")
    assert data.xywh.round().tolist() == [[2, 1, 4, 4], [0, 0, 3, 2]]  # the crowd went with YOLO
    assert (tmp_path / "voc" / data.file_names[0]).is_file()
    for layout, source, target in [("coco", file, "voc"), ("voc", "voc", "yolo"), ("yolo", "yolo", "coco")]:
        images = ["--images", "images"] if layout == "coco" else []
        output = tmp_path / "back" / target
        done = equigrad("data", "convert", layout, source, output, "--to", target, *images, folder=tmp_path)
        assert done.code == 0, done.err


def test_the_sizes_of_images_are_added_and_all_else_is_kept(file, tmp_path):
    content = {**without_sizes(coco()), "info": {"year": 2020}}
    write_json(file, content)
    done = equigrad("data", "convert", "coco", file, tmp_path / "b.json", "--images", tmp_path / "images")
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "b.json").read_text()) == {**coco(), "info": {"year": 2020}}
    to_yolo = ["data", "convert", "coco", file, tmp_path / "yolo", "--to", "yolo"]
    assert f"convert coco {file} {tmp_path}/a.sizes.json --images FOLDER`" in equigrad(*to_yolo).err
    assert equigrad(*to_yolo, "--images", tmp_path / "images").code == 0


def test_labels_alone_are_written_without_images(file, tmp_path):
    done = equigrad("data", "convert", "coco", file, tmp_path / "yolo", "--to", "yolo")
    assert done.code == 0, done.err
    assert not (tmp_path / "yolo" / "images").exists()


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        (["yolo", ".", "out.json", "--split", "train"], "--split: only voc", 1),
        (
            ["coco", "a.json", "out"],
            "a.json: is to be read as coco and written as coco; give --to voc or --to yolo; --images FOLDER adds",
            2,
        ),
        (["coco", "a.json", "out", "--to", "yolo", "--names", "x"], "--names x: only VOC and YOLO folders take it", 1),
        (["coco", "a.json", "out", "--to", "yolo", "--image-files", "link"], "link: needs --images FOLDER", 1),
        (["coco", "a.json", "images", "--to", "yolo"], "images: expected a new or empty folder", 1),
        (
            ["coco", "a.json", "out", "--to", "voc", "--images", "."],
            "the images are in images, name that instead of .",
            1,
        ),
        (["voc", "images", "out.json"], "images: expected annotations (*.xml), found none", 1),
        (["coco", "none.json", "out", "--to", "voc"], "none.json: no such annotation file", 1),
    ],
)
def test_what_cannot_be_converted_is_answered_in_one_line_and_nothing_is_written(file, tmp_path, words, message, code):
    before = sorted(tmp_path.rglob("*"))
    done = equigrad("data", "convert", *words, folder=tmp_path)
    assert done.code == code
    assert message in done.err
    assert done.err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_a_form_that_is_not_known_is_wrong_usage():
    assert equigrad("data", "convert", "kitti", "a", "b").code == 2


def test_masks_can_be_left_out(file, tmp_path):
    equigrad(
        "data",
        "convert",
        "coco",
        file,
        tmp_path / "yolo",
        "--to",
        "yolo",
        "--images",
        tmp_path / "images",
        "--boxes-only",
    )
    equigrad("data", "convert", "yolo", tmp_path / "yolo", tmp_path / "b.json")
    assert "segmentation" not in json.loads((tmp_path / "b.json").read_text())["annotations"][0]
