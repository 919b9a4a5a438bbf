from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from pycocotools.coco import COCO

from detection_on_disk import annotation, coco, image, write_json, write_pictures
from equigrad.data.detection.checks import check_detection
from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.detection.formats.voc import convert_voc
from equigrad.data.detection.formats.voc_writing import write_voc

SIDES = {"height": 48, "width": 64}


def round_trip(folder, content, **options):
    """COCO to VOC and back."""
    write_pictures(folder / "images", content)
    data = read_coco(write_json(folder / "a.json", content))
    written = write_voc(data, folder / "voc", folder / "images", **options)
    return written, data, read_coco(convert_voc(folder / "voc", folder / "b.json"))


boxes = st.tuples(st.floats(0, 60), st.floats(0, 44), st.floats(0.01, 60), st.floats(0.01, 44))


@settings(max_examples=15, deadline=None)
@given(st.lists(boxes, min_size=1, max_size=8))
def test_boxes_come_back_rounded_to_whole_pixels(tmp_path_factory, boxes):
    records = [annotation(index + 1, category_id=(1, 7)[index % 2], box=box) for index, box in enumerate(boxes)]
    _, before, after = round_trip(tmp_path_factory.mktemp("voc"), coco([image(1, **SIDES)], records))
    limits = np.array([64, 48, 64, 48])
    expected = np.clip(before.boxes, 0, limits)
    assert (after.boxes == np.rint(after.boxes)).all()
    assert (np.abs(after.boxes - expected) <= 1).all()  # half a pixel, or one for a box thinner than a pixel
    wide = (expected[:, 2:] - expected[:, :2] > 1).all(1)
    assert (np.abs(after.boxes - expected)[wide] <= 0.5 + 1e-4).all()
    assert (after.boxes >= 0).all()
    assert (after.boxes <= limits).all()
    assert after.labels.tolist() == before.labels.tolist()


def test_whole_pixels_crowds_and_categories_without_objects_come_back_as_they_were(tmp_path):
    records = [annotation(1, box=(2, 1, 4, 4)), annotation(2, box=(0, 0, 12, 8), iscrowd=1)]
    written, before, after = round_trip(tmp_path, coco([image(1), image(2)], records))
    assert str(written) == f"{tmp_path / 'voc'}: 2 images, 2 annotations, 2 categories"
    assert after.xywh.tolist() == before.xywh.tolist()
    assert after.is_crowd.tolist() == [False, True]
    assert after.categories.names == ("cat", "dog")  # no dog is in any image


def test_the_xml_counts_pixels_from_one_and_names_the_size(tmp_path):
    round_trip(tmp_path, coco([image(1)], [annotation(1, box=(2, 1, 4, 4))], [{"id": 1, "name": "cats & <dogs>"}]))
    root = ElementTree.parse(tmp_path / "voc" / "Annotations" / "1.xml").getroot()
    assert [root.findtext(f"size/{tag}") for tag in ("width", "height")] == ["12", "8"]
    assert root.findtext("object/name") == "cats & <dogs>"
    corners = ("xmin", "ymin", "xmax", "ymax")
    assert [root.findtext(f"object/bndbox/{tag}") for tag in corners] == ["3", "2", "6", "5"]
    assert (tmp_path / "voc" / "ImageSets" / "Main" / "trainval.txt").read_text() == "1\n"


def test_masks_that_do_not_overlap_come_back_exactly(tmp_path):
    records = [
        annotation(1, box=(10, 10, 20, 20), segmentation=[[10, 10, 30, 10, 30, 30, 10, 30]]),
        annotation(2, box=(40, 5, 10, 10), category_id=7),
        annotation(3, box=(40, 30, 9, 9), segmentation=[[40, 30, 49, 30, 49, 39]]),
    ]
    _, before, after = round_trip(tmp_path, coco([image(1, **SIDES)], records))
    for index in (0, 2):
        np.testing.assert_array_equal(after.mask(index), before.mask(index))
        assert after.areas[index] == before.mask(index).sum()
    assert after.segmentations.lengths[1] == 0


def test_of_overlapping_masks_the_smaller_is_whole(tmp_path):
    large, small = [[5, 5, 45, 5, 45, 40, 5, 40]], [[10, 10, 20, 10, 20, 20, 10, 20]]
    records = [annotation(1, segmentation=small, area=100), annotation(2, segmentation=large, area=1400)]
    _, before, after = round_trip(tmp_path, coco([image(1, **SIDES)], records))
    np.testing.assert_array_equal(after.mask(0), before.mask(0))
    np.testing.assert_array_equal(after.mask(1), before.mask(1) & ~before.mask(0) & 1)


def test_boxes_alone_are_written_where_masks_are_not_wanted(tmp_path):
    record = annotation(1, segmentation=[[2, 1, 6, 1, 6, 5]])
    _, _, after = round_trip(tmp_path, coco([image(1)], [record]), with_masks=False)
    assert after.segmentations is None


def test_more_objects_than_a_png_can_number_are_written_without_masks(tmp_path):
    records = [annotation(index, segmentation=[[2, 1, 6, 1, 6, 5]]) for index in range(1, 257)]
    written, _, after = round_trip(tmp_path, coco([image(1)], records))
    assert "1 images with more than 254 objects written without masks" in str(written)
    assert after.num_annotations == 256


def test_folders_of_images_go_into_the_name_where_two_are_the_same(tmp_path):
    content = coco([image(1, file_name="x/a.png"), image(2, file_name="y/a.png")], [annotation(1)])
    _, _, after = round_trip(tmp_path, content)
    assert after.file_names == ("JPEGImages/x_a.png", "JPEGImages/y_a.png")


def test_images_that_would_share_an_annotation_are_refused(tmp_path):
    content = coco([image(1, file_name="a.png"), image(2, file_name="a.jpg")], [])
    with pytest.raises(ValueError, match=r"a\.png and a\.jpg would have the same annotation, a\.xml"):
        write_voc(read_coco(write_json(tmp_path / "a.json", content)), tmp_path / "voc")


def test_pycocotools_reads_what_came_back_and_the_checks_pass(tmp_path):
    record = annotation(1, box=(5, 5, 10, 10), segmentation=[[5, 5, 15, 5, 15, 15]])
    round_trip(tmp_path, coco([image(1, **SIDES)], [record]))
    reference = COCO(tmp_path / "b.json")
    assert reference.annToMask(reference.loadAnns([1])[0]).sum() > 30
    assert {finding.severity for finding in check_detection(tmp_path / "b.json", tmp_path / "voc")} <= {"note"}
