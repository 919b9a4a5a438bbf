import json
import math

import msgspec
import pytest
from hypothesis import given, strategies as st

from detection_on_disk import RUNS, SQUARE, annotation
from equigrad.data.detection.findings import FindingCollector
from equigrad.data.detection.formats.coco_annotation_checks import check_annotations
from equigrad.data.detection.formats.coco_record_checks import CategoryFacts, ImageFacts

KNOWN = {"segmentation": SQUARE, "iscrowd": 0}


def check(*records, absent=()):
    """Findings of annotations of one image, 8 x 12, and one category; and the facts they are counted in."""
    images = {"1": ImageFacts(8, 12, "1.png", frozenset(absent))}
    categories = {"1": CategoryFacts("'cat'")}
    found = FindingCollector()
    check_annotations(found, [msgspec.Raw(json.dumps(record).encode()) for record in records], images, categories)
    return found.findings(), images["1"], categories["1"]


def only(*records, **settings):
    (finding,) = check(*records, **settings)[0]
    return finding.kind, finding.first


def test_good_annotations_have_no_findings_and_are_counted():
    findings, image, category = check(annotation(5, **KNOWN), annotation(6, box=(0, 0, 3, 3), **KNOWN))
    assert findings == []
    assert (image.num_annotations, category.num_annotations) == (2, 2)


@pytest.mark.parametrize(
    ("change", "kind", "first"),
    [
        ({"id": -1}, "annotations with a missing or wrong field", "annotation number 1: id: expected a whole number"),
        ({"id": 0}, "annotations with id 0", "annotation 0"),
        ({"image_id": 9}, "annotations of unknown images", "annotation 5: image_id 9"),
        ({"category_id": 9}, "annotations of unknown categories", "annotation 5: category_id 9"),
        ({"bbox": [1, 2, 3]}, "annotations with a missing or wrong field", "annotation 5: bbox: expected 4 numbers"),
        (
            {"bbox": [1, 2, math.inf, 3]},
            "boxes that are not finite or beyond any image",
            "annotation 5: [1, 2, inf, 3]",
        ),
        (
            {"bbox": [1, 2, 9254740993, 3]},
            "boxes that are not finite or beyond any image",
            "annotation 5: [1, 2, 9254740993, 3]",
        ),
        ({"bbox": [1, 2, -3, 3]}, "boxes with negative width or height", "annotation 5: [1, 2, -3, 3]"),
        ({"bbox": [1, 2, 0, 3], "area": 0}, "boxes without area", "annotation 5: [1, 2, 0, 3]"),
        ({"bbox": [12, 2, 3, 6]}, "boxes outside their image", "annotation 5: [12, 2, 3, 6] in an image of height 8"),
        ({"bbox": [9, 2, 5, 6]}, "boxes that reach out of their image", "annotation 5: [9, 2, 5, 6]"),
        ({"area": -1}, "areas that are negative or not finite", "annotation 5: -1"),
        ({"area": 99}, "areas larger than their box", "annotation 5: area 99, box [2, 1, 4, 4]"),
        ({"iscrowd": 2}, "annotations with a missing or wrong field", "annotation 5: iscrowd: expected 0 or 1, got 2"),
        ({"iscrowd": 1}, "crowds that are not run lengths", "annotation 5"),
        ({"segmentation": "x"}, "masks that are neither polygons nor run lengths", "annotation 5: 'x'"),
        ({"segmentation": [[1, 2, 3, 4, 5, 6, 7]]}, "polygons with an odd number of coordinates", "annotation 5: 7"),
        ({"segmentation": [[1, 2, 3, 4]]}, "polygons with fewer than three corners", "annotation 5: 4 numbers"),
        ({"segmentation": [[0, 0, 15, 0, 15, 8]]}, "polygons that reach out of their image", "annotation 5: by 3.0"),
        ({"segmentation": RUNS | {"size": [8, 8]}}, "run lengths of another size than their image", "annotation 5"),
        ({"segmentation": RUNS | {"counts": [1]}}, "run lengths that do not cover their image", "annotation 5"),
    ],
)
def test_each_fault_is_found_alone_and_names_the_annotation(change, kind, first):
    found, case = only({**annotation(5, **KNOWN), **change})
    assert found == kind
    assert case.startswith(first)


def test_repeated_ids_and_contents_are_found():
    findings, *_ = check(annotation(5, **KNOWN), annotation(5, box=(0, 0, 3, 3), **KNOWN))
    assert [finding.kind for finding in findings] == ["annotations with the same id"]
    assert only(annotation(5, **KNOWN), annotation(6, **KNOWN))[0] == "annotations that repeat another"


def test_masks_must_be_given_for_all_or_none():
    assert check(annotation(5), annotation(6, box=(0, 0, 3, 3)))[0] == []
    kind, first = only(annotation(5, **KNOWN), annotation(6, box=(0, 0, 3, 3)))
    assert (kind, first) == ("annotations without mask where others have one", "annotation 6")


def test_a_category_that_the_image_lists_as_absent_is_found():
    kind, first = only(annotation(5, **KNOWN), absent=["1"])
    assert kind == "annotations of a category that the image lists as absent"
    assert first == "annotation 5: category 1 ('cat') in image 1"


def test_no_annotations_at_all_is_an_error():
    assert only() == ("no annotations", "annotations is empty or missing")


@given(st.floats(0, 12), st.floats(0, 8), st.floats(0.01, 30), st.floats(0.01, 30))
def test_a_box_may_extend_one_pixel_beyond_its_image(x, y, width, height):
    findings, *_ = check(annotation(5, box=(x, y, width, height)) | {"area": 0.001})
    beyond = max(x + width - 12, y + height - 8)
    kinds = {finding.kind for finding in findings}
    if x >= 12 or y >= 8:
        assert kinds == {"boxes outside their image"}
    else:
        assert kinds == ({"boxes that reach out of their image"} if beyond > 1 else set())
