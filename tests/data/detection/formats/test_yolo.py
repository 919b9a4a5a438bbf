import shutil

import numpy as np
import pytest
from PIL import Image

from equigrad.data.detection.checks import check_detection
from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.detection.formats.yolo import convert_yolo, is_yolo
from hostile_files import refusal


def picture(file, size=(20, 10)):
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size).save(file)


def labels(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "yolo"
    picture(root / "images" / "train" / "a.jpg")
    picture(root / "images" / "train" / "b.jpg")
    labels(root / "labels" / "train" / "a.txt", "1 0.5 0.5 0.2 0.4\n\n0 0.1 0.2 0.5 0.2 0.5 1.0\n")
    (root / "data.yaml").write_text("train: images/train\nnames: [cat, dog]\n")
    return root


def test_shares_of_the_image_become_pixels(folder, tmp_path):
    data = read_coco(convert_yolo(folder, tmp_path / "a.json"))
    assert data.file_names == ("images/train/a.jpg", "images/train/b.jpg")
    assert (data.heights.tolist(), data.widths.tolist()) == ([10, 10], [20, 20])
    assert data.xywh.tolist() == [[8, 3, 4, 4], [2, 2, 8, 8]]
    assert data.labels.tolist() == [1, 0]
    assert data.categories.names == ("cat", "dog")
    assert data.is_empty.tolist() == [False, True]  # no text file, no objects
    assert data.mask(1).sum() > 20


def test_converted_data_passes_the_checks_with_its_images(folder, tmp_path):
    (folder / "labels" / "train" / "a.txt").write_text("0 0.5 0.5 1 1\n1 0.05 0.05 0.1 0.1")
    findings = check_detection(convert_yolo(folder, tmp_path / "a.json"), folder)
    assert {finding.kind for finding in findings} == {"images without annotation"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("names.yaml", "names:\n  1: dog\n  0: cat\n"),
        ("names.yaml", "names:\n- cat\n- dog\n"),
        ("names.txt", "cat\ndog\n\n"),
        ("obj.names", "cat\ndog"),
    ],
)
def test_names_come_from_a_file(folder, tmp_path, name, text):
    (folder / name).write_text(text)
    assert read_coco(convert_yolo(folder, tmp_path / "a.json", folder / name)).categories.names == ("cat", "dog")


def test_names_may_be_a_list(folder, tmp_path):
    assert read_coco(convert_yolo(folder, tmp_path / "a.json", ["x", "y", "z"])).categories.names == ("x", "y", "z")


def test_the_folder_may_be_that_of_a_split(folder, tmp_path):
    picture(folder / "images" / "val" / "c.jpg")
    data = read_coco(convert_yolo(folder / "images" / "train", tmp_path / "a.json"))
    assert data.file_names == ("a.jpg", "b.jpg")
    assert data.num_annotations == 2


def test_labels_may_lie_beside_the_images(tmp_path):
    picture(tmp_path / "images of mine" / "a.png")
    labels(tmp_path / "images of mine" / "a.txt", "0 0.5 0.5 1 1")
    labels(tmp_path / "images of mine" / "classes.txt", "cat")
    data = read_coco(convert_yolo(tmp_path / "images of mine", tmp_path / "a.json"))
    assert data.boxes.tolist() == [[0, 0, 20, 10]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 0.5 0.5 0.2", r"a.txt:2: expected a category and 4 numbers, .* got 4 words"),
        ("1 0.5 0.5 0.2 0.2 0.9", r"a.txt:2: expected a category and 4 numbers, .* got 6 words"),
        ("2 0.5 0.5 0.2 0.2", r"a.txt:2: category: expected 0..1, got '2'"),
        ("-1 0.5 0.5 0.2 0.2", r"a.txt:2: category: expected 0..1, got '-1'"),
        ("cat 0.5 0.5 0.2 0.2", r"a.txt:2: category: expected 0..1, got 'cat'"),
        ("1 0.5 50 0.2 0.2", r"a.txt:2: expected fractions of the image in 0..1, got '50'"),
        ("1 0.5 nan 0.2 0.2", r"a.txt:2: expected fractions of the image in 0..1, got 'nan'"),
        ("1 0.5 0.5 -0.005 0.2", r"a.txt:2: width and height: expected no negative numbers"),
    ],
)
def test_a_wrong_line_is_named(folder, tmp_path, line, message):
    labels(folder / "labels" / "train" / "a.txt", f"0 0.5 0.5 0.1 0.1\n{line}\n")
    with pytest.raises(ValueError, match=message):
        convert_yolo(folder, tmp_path / "a.json")
    assert not (tmp_path / "a.json").exists()


def test_folders_of_splits_may_have_the_images_and_labels(tmp_path):
    for split, line in (("train", "1.0 0.5 0.5 1 1"), ("valid", "0 0.5 0.5 0 1")):
        picture(tmp_path / split / "images" / "a.jpg")
        labels(tmp_path / split / "labels" / "a.txt", line)
    (tmp_path / "data.yaml").write_text("train: ../train/images\nnames: [cat, dog]\n")
    assert is_yolo(tmp_path)
    data = read_coco(convert_yolo(tmp_path, tmp_path / "a.json"))
    assert list(data.file_names) == ["train/images/a.jpg", "valid/images/a.jpg"]
    assert data.boxes.tolist() == [[0, 0, 20, 10], [10, 0, 10, 10]]  # one without area, which the checks report
    split = read_coco(convert_yolo(tmp_path / "train", tmp_path / "b.json"))  # with the names of the folder above
    assert split.labels.tolist() == [1]


def test_images_without_any_text_file_are_refused(folder, tmp_path):
    shutil.rmtree(folder / "labels")
    with pytest.raises(FileNotFoundError, match=r"expected text files with the objects in .*labels, found none"):
        convert_yolo(folder, tmp_path / "a.json")


def test_labels_without_image_are_not_lost_in_silence(folder, tmp_path):
    labels(folder / "labels" / "train" / "lost.txt", "0 0.5 0.5 0.1 0.1")
    with pytest.raises(FileNotFoundError, match=r"lost.txt: there is no image with the same name in .*images"):
        convert_yolo(folder, tmp_path / "a.json")


@pytest.mark.parametrize(
    "text", ["names: 3", "names: {1: a, 2: b}", "- a", "names: [[1]]", "a: [", "!!python/name:os.system"]
)
def test_names_that_cannot_be_used_are_refused_with_their_file(folder, tmp_path, text):
    (folder / "data.yaml").write_text(text)
    with pytest.raises(ValueError, match=r"data.yaml: (names: expected|expected one or more|not a valid YAML)"):
        convert_yolo(folder, tmp_path / "a.json")


def test_a_folder_without_names_or_images_is_refused(folder, tmp_path):
    (folder / "data.yaml").unlink()
    with pytest.raises(
        FileNotFoundError,
        match=r"yolo: expected the category names in data.yaml, .* or --names FILE",
    ):
        convert_yolo(folder, tmp_path / "a.json")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"empty: expected text files with the objects"):
        convert_yolo(tmp_path / "empty", tmp_path / "a.json", ["a"])


def test_boxes_of_a_real_format_round_trip(tmp_path):
    """Boxes in pixels, written as YOLO does it, come back to within the digits of the text."""
    rng = np.random.default_rng(0)
    corners = np.sort(rng.uniform(0, 1, (50, 2, 2)), axis=1)
    boxes = np.concatenate([corners[:, 0], corners[:, 1] - corners[:, 0]], 1) * [640, 480, 640, 480]
    centres = (boxes[:, :2] + boxes[:, 2:] / 2) / [640, 480]
    lines = [
        f"0 {x:.6f} {y:.6f} {w:.6f} {h:.6f}" for (x, y), (w, h) in zip(centres, boxes[:, 2:] / [640, 480], strict=True)
    ]
    picture(tmp_path / "d" / "a.png", (640, 480))
    labels(tmp_path / "d" / "a.txt", "\n".join(lines))
    data = read_coco(convert_yolo(tmp_path / "d", tmp_path / "a.json", ["thing"]))
    np.testing.assert_allclose(data.xywh, boxes, atol=2e-3)


def test_names_are_texts_whatever_yaml_takes_them_for(folder, tmp_path):
    (folder / "data.yaml").write_text("names: [no, 2024-01-01, 1.50, 0x1F]\n")
    names = read_coco(convert_yolo(folder, tmp_path / "a.json")).categories.names
    assert names == ("no", "2024-01-01", "1.50", "0x1F")


# Each list holds the one before twice: 2^60 names if anybody wrote them out.
ALIASES = "\n".join(
    ["a0: &a0 [x, x]", *(f"a{index + 1}: &a{index + 1} [*a{index}, *a{index}]" for index in range(60)), "names: *a60"]
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ALIASES, "names: expected a list of names"),
        ("names: " + "[" * 20_000, "not a valid YAML file"),
        ("names: !!python/object/apply:os.system {a: 'touch hacked'}", "names: expected a list"),
        ("names: [" + "x, " * 400_000 + "]", "expected at most 524,288 bytes, got"),
        ("names: {0: cat, 999999999: dog}", "names: expected a list of names, or a name for each number"),
    ],
    ids=["aliases", "depth", "code", "length", "number"],
)
def test_a_hostile_file_of_names_is_refused(folder, tmp_path, text, message, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (folder / "data.yaml").write_text(text)
    refused = refusal(convert_yolo, folder, tmp_path / "a.json")
    assert refused.startswith(f"{folder / 'data.yaml'}: ")
    assert message in refused
    assert [file.name for file in tmp_path.iterdir()] == [folder.name]


@pytest.mark.parametrize("link", ["images/train/b.jpg", "labels/train/a.txt"])
def test_a_link_out_of_the_folder_is_not_followed_where_that_is_forbidden(folder, tmp_path, link, monkeypatch):
    monkeypatch.setenv("EQUIGRAD_FOLLOW_LINKS", "0")
    (folder / link).rename(tmp_path / "secret")
    (folder / link).symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match=f"{link}: leaves"):
        convert_yolo(folder, tmp_path / "a.json")
    assert not (tmp_path / "a.json").exists()


def test_a_number_of_any_length_is_refused_as_a_category(folder, tmp_path):
    (folder / "labels" / "train" / "a.txt").write_text("9" * 5000 + " 0.5 0.5 0.2 0.4\n")
    assert "a.txt:1: category: expected 0..1" in refusal(convert_yolo, folder, tmp_path / "a.json")
