import json

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from pycocotools.coco import COCO

from detection_on_disk import RUNS, annotation, coco, image, write_json, write_pictures
from equigrad.data.detection.checks import check_detection
from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.detection.formats.yolo import convert_yolo
from equigrad.data.detection.formats.yolo_writing import write_yolo

SIDES = {"height": 480, "width": 640}


def round_trip(folder, content, **options):
    """COCO to YOLO and back."""
    write_pictures(folder / "images", content)
    data = read_coco(write_json(folder / "a.json", content))
    written = write_yolo(data, folder / "yolo", folder / "images", **options)
    return written, data, read_coco(convert_yolo(folder / "yolo", folder / "b.json"))


boxes = st.tuples(st.floats(0, 60), st.floats(0, 44), st.floats(0.1, 4), st.floats(0.1, 4))


@settings(max_examples=15, deadline=None)
@given(st.lists(boxes, min_size=1, max_size=8))
def test_boxes_come_back_to_a_thousandth_of_a_pixel(tmp_path_factory, boxes):
    records = [annotation(index + 1, category_id=(1, 7)[index % 2], box=box) for index, box in enumerate(boxes)]
    content = coco([image(1, height=48, width=64)], records)
    _, before, after = round_trip(tmp_path_factory.mktemp("yolo"), content)
    np.testing.assert_allclose(after.xywh, before.xywh, atol=1e-3)
    assert after.labels.tolist() == before.labels.tolist()
    assert after.categories.names == before.categories.names


def test_names_images_and_lines_are_where_the_format_has_them(tmp_path):
    content = coco([image(1, file_name="train/a.png"), image(2)], [annotation(1, box=(3, 2, 6, 4))])
    written, *_ = round_trip(tmp_path, content)
    assert str(written) == f"{tmp_path / 'yolo'}: 2 images, 1 annotations, 2 categories"
    assert (tmp_path / "yolo" / "labels" / "train" / "a.txt").read_text() == "0 0.5 0.5 0.5 0.5\n"
    assert not (tmp_path / "yolo" / "labels" / "2.txt").exists()
    assert (tmp_path / "yolo" / "images" / "train" / "a.png").is_file()
    assert (tmp_path / "yolo" / "data.yaml").read_text() == "train: images\nnames:\n  0: cat\n  1: dog\n"


def test_polygons_and_run_lengths_come_back_as_the_same_masks(tmp_path):
    square = [[10, 10, 50, 10, 50, 40, 10, 40]]
    mask = np.zeros((480, 640), np.uint8)
    mask[100:200, 300:420] = 1
    mask[120:140, 320:350] = 0
    runs = np.diff(np.flatnonzero(np.diff(mask.T.ravel(), prepend=2, append=2)))
    shape = {"size": [480, 640], "counts": runs.tolist()}
    records = [
        annotation(1, box=(10, 10, 40, 30), segmentation=square),
        annotation(2, box=(300, 100, 120, 100), segmentation=shape),
    ]
    _, before, after = round_trip(tmp_path, coco([image(1, **SIDES)], records))
    for index in range(2):
        np.testing.assert_array_equal(after.mask(index), before.mask(index))
    np.testing.assert_allclose(after.xywh, before.xywh, atol=1e-3)


def test_boxes_alone_are_written_where_masks_are_not_wanted(tmp_path):
    content = coco([image(1)], [annotation(1, segmentation=[[2, 1, 6, 1, 6, 5]])])
    _, _, after = round_trip(tmp_path, content, with_masks=False)
    assert after.segmentations is None


def test_what_the_format_cannot_hold_is_left_out_and_counted(tmp_path):
    records = [
        annotation(1, box=(1, 1, 100, 2)),
        annotation(2, segmentation=RUNS, iscrowd=1),
        annotation(3, box=(2, 2, 0, 3)),
        annotation(4, box=(30, 30, 4, 4)),
    ]
    written, _, after = round_trip(tmp_path, coco([image(1)], records))
    assert str(written).endswith(
        "1 annotations, 2 categories; 1 crowds left out, which YOLO does not have; "
        "2 boxes without area in their image left out"
    )
    assert after.xywh.tolist() == [[1, 1, 11, 2]]  # cut off at the edge


def test_a_mask_outside_of_its_image_becomes_the_box(tmp_path):
    record = annotation(1, box=(2, 1, 4, 4), segmentation=[[20, 20, 30, 20, 30, 30]])
    _, _, after = round_trip(tmp_path, coco([image(1)], [record]))
    assert after.xywh.tolist() == [[2, 1, 4, 4]]


def test_images_that_would_share_a_file_of_labels_are_refused(tmp_path):
    content = coco([image(1, file_name="a.png"), image(2, file_name="a.jpg")], [])
    data = read_coco(write_json(tmp_path / "a.json", content))
    with pytest.raises(ValueError, match=r"a\.png and a\.jpg would have the same file of labels, a\.txt"):
        write_yolo(data, tmp_path / "yolo")
    assert not (tmp_path / "yolo").exists()


def test_pycocotools_reads_what_came_back_and_the_checks_pass(tmp_path):
    content = coco([image(1, **SIDES)], [annotation(1, box=(5, 5, 9, 9), segmentation=[[5, 5, 14, 5, 14, 14]])])
    round_trip(tmp_path, content)
    reference = COCO(tmp_path / "b.json")
    assert reference.annToMask(reference.loadAnns([1])[0]).sum() > 30
    assert {finding.severity for finding in check_detection(tmp_path / "b.json", tmp_path / "yolo")} <= {"note"}
    assert json.loads((tmp_path / "b.json").read_text())["images"][0]["file_name"] == "images/1.png"


def test_a_box_that_is_not_around_its_mask_is_replaced_and_counted(tmp_path):
    square = [[10, 10, 50, 10, 50, 40, 10, 40]]
    records = [annotation(index, box=(x, 10, 40, 30), segmentation=square) for index, x in ((1, 10), (2, 200))]
    written, _, after = round_trip(tmp_path, coco([image(1, **SIDES)], records))
    assert "; 1 boxes that are not around their mask replaced by the box of the mask" in str(written)
    np.testing.assert_allclose(after.xywh, [[10, 10, 40, 30]] * 2, atol=1e-3)
