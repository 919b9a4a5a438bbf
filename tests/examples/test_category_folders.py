"""Folders by category, made of annotated objects and of nested drawings."""

import json

import numpy as np
import pytest
from PIL import Image

from equigrad.data.images.readers import read_image_folder
from images_on_disk import write_images, zip_folder
from scripts import run_script
from small_detection_data import annotated, write_images as write_scenes

SCRIPT = "examples/category_folders.py"


def test_objects_are_cut_out_and_no_name_leaves_the_folder(tmp_path):
    categories = [{"id": 3, "name": "../../cup"}, {"id": 5, "name": "jug"}, {"id": 8, "name": "urn"}]
    content = annotated([[3, 5], [5]], categories)
    for record in content["images"]:
        record["file_name"] = f"{record['id']}.png"
    write_scenes(tmp_path / "images", content, 0)
    (tmp_path / "objects.json").write_text(json.dumps(content))
    done = run_script(SCRIPT, "objects", tmp_path / "objects.json", tmp_path / "images", tmp_path / "out" / "train")
    assert done.stdout == f"3 images are in {tmp_path}/out/train\n"
    files = sorted(path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.png"))
    assert files == ["train/______cup/1.png", "train/jug/2.png", "train/jug/3.png"]
    first = content["annotations"][0]["bbox"]
    with Image.open(tmp_path / "out" / "train" / "______cup" / "1.png") as image:
        assert image.size == (first[2], first[3])


def test_drawings_become_a_long_tail_and_a_test_set(tmp_path):
    write_images(tmp_path / "alphabets" / "Greek", dict.fromkeys("abcd", 20))
    archive = zip_folder(tmp_path / "alphabets", tmp_path / "drawings.zip")
    done = run_script(SCRIPT, "drawings", archive, tmp_path / "out", "--imbalance-factor", 15)
    assert done.returncode == 0, done.stderr
    train, test = (read_image_folder(tmp_path / "out" / split) for split in ("train", "test"))
    assert test.class_names == ("Greek a", "Greek b", "Greek c", "Greek d")
    assert test.category_counts.tolist() == [5] * 4
    assert np.sort(train.category_counts).tolist() == [1, 2, 6, 15]
    assert not {path.rpartition("/")[2] for path in train.paths if path.startswith("Greek a/")} & {
        path.rpartition("/")[2] for path in test.paths if path.startswith("Greek a/")
    }


def test_regions_are_cut_around_each_category_but_not_around_large_ones(tmp_path):
    labels = np.zeros((40, 40), np.uint8)
    labels[4:14, 20:32], labels[30:33, 0:12], labels[35:, 35:] = 7, 3, 255  # 3 is too low
    for kind, pixels in (("images", np.stack([labels] * 3, axis=-1)), ("labels", labels)):
        (tmp_path / "maps" / "train" / kind).mkdir(parents=True)
        Image.fromarray(pixels).save(tmp_path / "maps" / "train" / kind / "a.png")
    done = run_script(
        SCRIPT, "regions", zip_folder(tmp_path / "maps", tmp_path / "maps.zip"), "train", tmp_path / "out"
    )
    assert done.stdout == f"1 images are in {tmp_path}/out\n", done.stderr
    with Image.open(tmp_path / "out" / "7" / "a.png") as image:
        assert image.size == (12, 10)


@pytest.mark.parametrize(
    "words", [["objects", "no.json", "no"], ["drawings", "no.zip"], ["regions", "no.zip", "train"]]
)
def test_what_is_missing_gets_one_line(tmp_path, words):
    done = run_script(SCRIPT, *words, tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr.startswith("error: no.")
    assert done.stderr.count("\n") == 1
