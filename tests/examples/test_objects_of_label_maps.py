"""Objects with masks, made from label maps."""

import numpy as np
from PIL import Image

from equigrad.data.detection.formats.coco_json import read_coco
from scripts import run_script

SCRIPT = "examples/objects_of_label_maps.py"


def spiral() -> np.ndarray:
    """One object whose ends are far apart along its pixels."""
    labels = np.zeros((40, 40), np.uint8)
    for start in range(0, 20, 4):
        labels[start, start : 40 - start] = 1
        labels[start : 40 - start, 39 - start] = 1
        labels[39 - start, start : 40 - start] = 1
        labels[start + 4 : 40 - start, start] = 1
        labels[start + 4, start : start + 5] = 1
    return labels


def write_scene(folder, labels):
    for kind, pixels in (("images", np.stack([labels] * 3, axis=-1)), ("labels", labels)):
        (folder / "train" / kind).mkdir(parents=True)
        Image.fromarray(pixels).save(folder / "train" / kind / "a.png")
    (folder / "names.txt").write_text("street\ncar\nbus\n")


def test_touching_pixels_of_a_category_are_one_object(tmp_path):
    labels = np.zeros((40, 60), np.uint8)
    labels[2:12, 3:13] = 1
    labels[2:12, 13:20] = 2  # touches the car, but is of another category
    labels[20:30, 30:40] = 1
    labels[35:37, 50:52] = 1  # too small
    labels[0, 0] = 255
    write_scene(tmp_path, labels)
    output = tmp_path / "train.json"
    done = run_script(SCRIPT, tmp_path, "train", tmp_path / "names.txt", output, "--categories", "bus", "car")
    assert done.stdout == f"3 objects are in {output}\n", done.stderr
    data = read_coco(output)
    assert data.categories.names == ("bus", "car")
    assert data.file_names[0] == "train/images/a.png"
    assert sorted(zip(data.labels.tolist(), data.boxes.tolist(), strict=True)) == [
        (0, [13, 2, 20, 12]),
        (1, [3, 2, 13, 12]),
        (1, [30, 20, 40, 30]),
    ]


def test_a_spiral_is_one_object(tmp_path):
    labels = spiral()
    write_scene(tmp_path, labels)
    output = tmp_path / "train.json"
    done = run_script(SCRIPT, tmp_path, "train", tmp_path / "names.txt", output, "--categories", "car")
    assert done.stdout == f"1 objects are in {output}\n", done.stderr
    assert read_coco(output).areas.tolist() == [labels.sum()]


def test_an_unknown_category_is_named_with_those_that_exist(tmp_path):
    write_scene(tmp_path, spiral())
    done = run_script(SCRIPT, tmp_path, "train", tmp_path / "names.txt", tmp_path / "out.json", "--categories", "tram")
    assert done.stderr == f"error: --categories: {tmp_path}/names.txt has no tram; it has street, car, bus\n"
    assert done.returncode == 1
    assert not (tmp_path / "out.json").exists()
