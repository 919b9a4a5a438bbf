import csv
import json

import numpy as np
import pytest
from PIL import Image

from equigrad.data.detection.dataset import DetectionDataset
from equigrad.data.detection.formats import csv_blocks
from equigrad.data.detection.formats.openimages import (
    BOXES_FILE,
    CLASSES_FILE,
    HIERARCHY_FILE,
    LABELS_FILE,
    is_openimages,
    openimages_totals,
    read_classes,
    read_openimages,
)
from equigrad.evaluation.detection.openimages import OpenImagesEvaluator
from shared_data import shared_folder

ANIMAL, DOG, CAR = range(3)
MIDS = ("/m/0jbk", "/m/0bt9lr", "/m/0k4j")
HEADER = "ImageID,LabelName,XMin,XMax,YMin,YMax,IsGroupOf\n"
BOXES = {
    "validation": (
        "0002ab0af02e4a77,/m/0k4j,0.5,1,0.25,0.75,0\n"
        "0001eeaf4aed83f9,/m/0bt9lr,0,0.5,0,1,0\n"
        "0001eeaf4aed83f9,/m/0k4j,0.1,0.2,0.3,0.4,1\n"
        "0002ab0af02e4a77,/m/0jbk,0,1,0,1,-1\n"
    ),
    "train": "0003bb040a62c86f,/m/0bt9lr,0,1,0,0.5,1\n0003bb040a62c86f,/m/0k4j,0,0.5,0,0.5,0\n",
}
LABELS = (
    "ImageID,LabelName,Confidence\n"
    "0001eeaf4aed83f9,/m/0bt9lr,1\n"
    "0001eeaf4aed83f9,/m/0k4j,1\n"
    "0002ab0af02e4a77,/m/0k4j,1\n"
    "0002ab0af02e4a77,/m/0bt9lr,0\n"
    "0002ab0af02e4a77,/m/0bt9lr,0\n"
    "0009bad4d8539bb4,/m/0jbk,0\n"
)
SIZES = "ImageID,Width,Height\n0001eeaf4aed83f9,100,80\n0002ab0af02e4a77,40,20\n0009bad4d8539bb4,8,8\n"


@pytest.fixture
def root(tmp_path):
    tree = {
        "LabelName": "/m/0bl9f",
        "Subcategory": [{"LabelName": MIDS[ANIMAL], "Subcategory": [{"LabelName": MIDS[DOG]}]}],
    }
    tree["Subcategory"].append({"LabelName": MIDS[CAR]})
    (tmp_path / CLASSES_FILE).write_text('/m/0jbk,Animal\n/m/0bt9lr,"Dog, or hound"\n/m/0k4j,Car\n')
    (tmp_path / HIERARCHY_FILE).write_text(json.dumps(tree))
    for split, rows in BOXES.items():
        (tmp_path / BOXES_FILE.format(split=split)).write_text(HEADER + rows)
    (tmp_path / LABELS_FILE.format(split="validation")).write_text(LABELS)
    (tmp_path / "sizes.csv").write_text(SIZES)
    return tmp_path


@pytest.fixture
def data(root):
    return read_openimages(root, "validation", sizes=root / "sizes.csv")


def test_images_are_those_with_boxes_or_verified_labels_in_the_order_of_their_names(data):
    assert data.image_names.tolist() == [b"0001eeaf4aed83f9", b"0002ab0af02e4a77", b"0009bad4d8539bb4"]
    assert data.detection.file_names[0] == "0001eeaf4aed83f9.jpg"
    assert data.detection.image_ids.tolist() == [0, 1, 2]
    assert (data.detection.widths.tolist(), data.detection.heights.tolist()) == ([100, 40, 8], [80, 20, 8])


def test_boxes_are_in_pixels_by_image_and_in_the_order_of_the_file_within_one(data):
    detection = data.detection
    assert detection.offsets.tolist() == [0, 2, 4, 4]
    np.testing.assert_allclose(
        detection.boxes, [[0, 0, 50, 80], [10, 24, 20, 32], [20, 5, 40, 15], [0, 0, 40, 20]], rtol=1e-6
    )
    assert detection.labels.tolist() == [DOG, CAR, CAR, ANIMAL]
    assert detection.ids.tolist() == [2, 3, 1, 4]
    np.testing.assert_allclose(detection.areas, [4000, 80, 200, 800], rtol=1e-5)
    assert data.is_group_of.tolist() == [False, True, False, False]
    assert not detection.is_crowd.any()


def test_categories_are_in_the_order_of_their_file_with_ids_from_1(data):
    assert data.mids == MIDS
    assert data.detection.categories.names == ("Animal", "Dog, or hound", "Car")
    assert data.detection.categories.ids.tolist() == [1, 2, 3]
    assert np.flatnonzero(data.hierarchy.is_ancestor[DOG]).tolist() == [ANIMAL]


def test_verified_labels_are_lists_of_each_image_without_repetition(data):
    assert [data.positive[image].tolist() for image in range(3)] == [[DOG, CAR], [CAR], []]
    assert [data.negative[image].tolist() for image in range(3)] == [[], [DOG], [ANIMAL]]


def test_training_data_needs_no_verified_labels_and_keeps_group_of_boxes(root):
    Image.new("RGB", (40, 20)).save(root / "0003bb040a62c86f.jpg")
    train = read_openimages(root, "train", images=root)
    assert train.positive is None
    assert train.negative is None
    assert train.detection.boxes.tolist() == [[0, 0, 40, 10], [0, 0, 20, 10]]
    assert train.detection.instance_counts.tolist() == [0, 1, 1]
    assert not train.detection.is_empty.any()
    with pytest.raises(FileNotFoundError, match="challenge-2019-train-detection-human-imagelabels"):
        read_openimages(root, "train", images=root, verified=True)


def test_a_detection_data_set_serves_it(root):
    Image.new("RGB", (40, 20)).save(root / "0003bb040a62c86f.jpg")
    image, target = DetectionDataset(read_openimages(root, "train", images=root).detection, root)[0]
    assert image.shape == (3, 20, 40)
    assert target["boxes"].tolist() == [[0, 0, 40, 10], [0, 0, 20, 10]]
    assert target["labels"].tolist() == [DOG, CAR]


def test_a_part_of_the_images_keeps_their_boxes_flags_and_verified_labels(data):
    part = data.subset(np.array([2, 0]))
    assert part.image_names.tolist() == [b"0009bad4d8539bb4", b"0001eeaf4aed83f9"]
    assert part.detection.offsets.tolist() == [0, 0, 2]
    assert (part.detection.ids.tolist(), part.is_group_of.tolist()) == ([2, 3], [False, True])
    assert [part.positive[image].tolist() for image in range(2)] == [[], [DOG, CAR]]
    assert [part.negative[image].tolist() for image in range(2)] == [[ANIMAL], []]


def test_group_of_boxes_can_be_left_out(data):
    ordinary = data.without_groups()
    assert ordinary.detection.labels.tolist() == [DOG, CAR, ANIMAL]
    assert ordinary.detection.offsets.tolist() == [0, 1, 3, 3]
    assert ordinary.detection.boxes[1].tolist() == [20, 5, 40, 15]
    assert not ordinary.is_group_of.any()


def test_boxes_can_be_repeated_for_ancestors_once(data):
    expanded = data.with_ancestors()
    assert expanded.detection.labels.tolist() == [DOG, ANIMAL, CAR, CAR, ANIMAL]
    assert expanded.detection.offsets.tolist() == [0, 3, 5, 5]
    assert expanded.detection.boxes[0].tolist() == expanded.detection.boxes[1].tolist()
    assert expanded.is_group_of.tolist() == [False, False, True, False, False]
    assert expanded.with_ancestors() is expanded


def test_the_layout_of_openimages_v5_with_more_columns_is_read_alike(root, data):
    file = root / BOXES_FILE.format(split="validation")
    wide = "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,IsDepiction\n"
    for row in csv.reader(BOXES["validation"].splitlines()):
        wide += ",".join([row[0], "xclick", row[1], "1", *row[2:6], "0", "1", row[6], "0"]) + "\n"
    file.write_text(wide)
    again = read_openimages(root, "validation", sizes=root / "sizes.csv")
    assert again.detection.boxes.tolist() == data.detection.boxes.tolist()
    assert again.is_group_of.tolist() == data.is_group_of.tolist()


def test_boxes_without_the_group_of_column_are_ordinary(root):
    file = root / BOXES_FILE.format(split="validation")
    lines = (HEADER + BOXES["validation"]).splitlines()
    file.write_text("".join(line.rsplit(",", 1)[0] + "\n" for line in lines))
    assert not read_openimages(root, "validation", sizes=root / "sizes.csv").is_group_of.any()


def test_images_that_go_over_the_edge_of_a_block_stay_whole(root, data, monkeypatch):
    monkeypatch.setattr(csv_blocks, "ROWS_AT_ONCE", 1)
    again = read_openimages(root, "validation", sizes=root / "sizes.csv")
    assert again.detection.boxes.tolist() == data.detection.boxes.tolist()
    assert again.detection.offsets.tolist() == data.detection.offsets.tolist()
    assert again.positive.values.tolist() == data.positive.values.tolist()


def test_sizes_from_headers_can_be_kept_in_a_file(root, data):
    for name, width, height in zip(data.image_names, data.detection.widths, data.detection.heights, strict=True):
        Image.new("RGB", (int(width), int(height))).save(root / f"{name.decode()}.jpg")
    measured = read_openimages(root, "validation", images=root)
    assert measured.detection.boxes.tolist() == data.detection.boxes.tolist()
    assert measured.write_sizes(root / "again.csv").read_text() == SIZES


def test_perfect_detections_of_what_was_read_have_an_ap_of_1(data):
    evaluator = OpenImagesEvaluator(data, [30, 20, 10])
    rows = []
    for image in range(3):
        for index in range(*data.detection.offsets[image : image + 2]):
            x1, y1, x2, y2 = data.detection.boxes[index].tolist()
            row = {"image_id": data.image_names[image].decode(), "category_id": int(data.detection.labels[index]) + 1}
            rows.append(row | {"bbox": [x1, y1, x2 - x1, y2 - y1], "score": 0.5 + index / 10})
    evaluator.add_rows(rows)
    assert evaluator.result()["AP"] == 1
    assert [row.num_boxes for row in evaluator.per_category()] == [2, 1, 2]
    # The third image is known to have no animal: a dog in it counts against both.
    evaluator.add_rows([{"image_id": "0009bad4d8539bb4", "category_id": DOG + 1, "bbox": [0, 0, 5, 5], "score": 0.99}])
    assert [row.AP for row in evaluator.per_category()] == pytest.approx([2 / 3, 1 / 2, 1])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("i,/m/unicorn,0,1,0,1,0", "LabelName must be the mid of one of the 3 categories, got '/m/unicorn'"),
        ("i,/m/0k4j,-0.1,1,0,1,0", r"XMin must be in \[0, 1\], got '-0.1'"),
        ("i,/m/0k4j,0,1,0,1.5,0", r"YMax must be in \[0, 1\], got '1.5'"),
        ("i,/m/0k4j,0,nan,0,1,0", r"XMax must be in \[0, 1\], got 'nan'"),
        ("i,/m/0k4j,0.6,0.5,0,1,0", "XMin must be at most XMax, got '0.6'"),
        ("i,/m/0k4j,0,1,0.9,0.1,0", "YMin must be at most YMax, got '0.9'"),
        ("i,/m/0k4j,0,1,0,1,2", "IsGroupOf must be 1, 0 or, where unknown, -1, got '2'"),
        ("i,/m/0k4j,0,1,0,one,0", "YMax must be a number, got 'one'"),
        ("i,/m/0k4j,0,1", "YMin is missing"),
    ],
)
def test_a_wrong_row_of_boxes_is_named_by_file_line_and_field(root, row, message):
    file = root / BOXES_FILE.format(split="validation")
    file.write_text(HEADER + BOXES["validation"] + row + "\n")
    with pytest.raises(ValueError, match=rf"challenge-2019-validation-detection-bbox\.csv, line 6: {message}"):
        read_openimages(root, "validation", sizes=root / "sizes.csv")


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "", "x" * 40])
def test_an_image_id_that_could_not_be_a_file_name_is_refused(root, name):
    (root / BOXES_FILE.format(split="validation")).write_text(f"{HEADER}{name},/m/0k4j,0,1,0,1,0\n")
    with pytest.raises(ValueError, match=r"bbox\.csv: ImageID must be less than 32 letters and digits"):
        read_openimages(root, "validation", sizes=root / "sizes.csv")


def test_machine_made_labels_are_refused(root):
    (root / LABELS_FILE.format(split="validation")).write_text("ImageID,LabelName,Confidence\ni,/m/0k4j,0.7\n")
    with pytest.raises(ValueError, match=r"imagelabels\.csv, line 2: Confidence must be 0 or 1, as people verify"):
        read_openimages(root, "validation", sizes=root / "sizes.csv")


def test_a_file_without_rows_is_refused(root):
    (root / BOXES_FILE.format(split="validation")).write_text(HEADER)
    with pytest.raises(ValueError, match=r"bbox\.csv: expected rows below the header, found none"):
        read_openimages(root, "validation", sizes=root / "sizes.csv")


@pytest.mark.parametrize("name", [CLASSES_FILE, HIERARCHY_FILE, BOXES_FILE, LABELS_FILE])
def test_what_to_place_where_is_said_in_one_line(root, name):
    (root / name.format(split="validation")).unlink()
    with pytest.raises(FileNotFoundError, match=r"no such file; put challenge-2019-classes.* in one folder$") as error:
        read_openimages(root, "validation", sizes=root / "sizes.csv")
    assert name.format(split="validation") in str(error.value)
    assert "\n" not in str(error.value)


def test_wrong_arguments_are_refused(root):
    with pytest.raises(ValueError, match='split must be "train" or "validation", got \'val\''):
        read_openimages(root, "val", sizes=root / "sizes.csv")
    with pytest.raises(ValueError, match=r"relative to the image size: pass images \(a folder or \.zip\) or sizes"):
        read_openimages(root, "validation")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "expected lines `/m/...,name`, found none"),
        ("mid,name\n", "line 1: expected `/m/...,name`"),
        ("/m/0k4j,Car\n/m/0k4j\n", "line 2: expected `/m/...,name`"),
        ("/m/0k4j,Car\n/m/0k4j,Auto\n", "line 2: /m/0k4j is listed twice"),
    ],
)
def test_a_wrong_list_of_classes_is_refused(tmp_path, content, message):
    (tmp_path / CLASSES_FILE).write_text(content)
    with pytest.raises(ValueError, match=message):
        read_classes(tmp_path / CLASSES_FILE)


@pytest.mark.shared_data
def test_the_500_classes_are_read_in_their_order(tmp_path):
    rows = list(csv.DictReader((shared_folder("frequencies") / "openimages_challenge_500_classes.csv").open()))
    with (tmp_path / CLASSES_FILE).open("w", newline="") as stream:
        csv.writer(stream).writerows([row["mid"], row["name"]] for row in rows)
    mids, names = read_classes(tmp_path / CLASSES_FILE)
    assert len(mids) == 500
    assert (mids[0], names[0]) == ("/m/061hd_", "Infant bed")
    assert [int(row["id"]) for row in rows] == list(range(1, 501))


def test_totals_of_both_splits_are_counted_without_any_image(root):
    assert is_openimages(root)
    names = ("Animal", "Dog, or hound", "Car")
    found = openimages_totals(root)
    totals = {split: (each.names, each.num_images, each.box_counts.sum()) for split, each in found.items()}
    assert totals == {"train": (names, 1, 2), "validation": (names, 3, 4)}
    (root / BOXES_FILE.format(split="train")).unlink()
    assert openimages_totals(root).keys() == {"validation"}
    (root / BOXES_FILE.format(split="validation")).unlink()
    with pytest.raises(FileNotFoundError, match=r"expected challenge-2019-train-detection-bbox\.csv"):
        openimages_totals(root)
