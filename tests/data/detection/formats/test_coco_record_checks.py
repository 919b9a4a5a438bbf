import json
import math
import re

import msgspec
import pytest

from detection_on_disk import image
from equigrad.data.detection.findings import FindingCollector
from equigrad.data.detection.formats.coco_record_checks import (
    CategoryFacts,
    check_categories,
    check_images,
    is_finite,
    is_number,
    objects,
)


def raw(*records):
    return [msgspec.Raw(json.dumps(record).encode()) for record in records]


def categories(*records):
    found = FindingCollector()
    return found, check_categories(found, raw(*records))


def images(*records, known=(1, 2)):
    found = FindingCollector()
    return found, check_images(found, raw(*records), {str(number): CategoryFacts(str(number)) for number in known})


def only(found):
    (finding,) = found.findings()
    return finding.kind, finding.first


def test_good_records_are_returned_by_id_without_findings():
    found, known = categories({"id": 7, "name": "dog"}, {"id": 1, "name": "cat"})
    assert found.findings() == []
    assert {number: facts.name for number, facts in known.items()} == {"7": "'dog'", "1": "'cat'"}
    found, known = images(image(3, neg_category_ids=[2], not_exhaustive_category_ids=[1]))
    assert found.findings() == []
    assert (known["3"].height, known["3"].width, known["3"].path, known["3"].absent) == (8, 12, "3.png", {"2"})


@pytest.mark.parametrize(
    ("records", "kind", "first"),
    [
        ([], "no categories", "categories is empty"),
        ([{"name": "a"}], "categories with a missing or wrong field", "category number 1: id: .*, it is missing"),
        ([{"id": 1, "name": " "}], "categories with a missing or wrong field", "category 1: name: expected a name"),
        ([{"id": 1, "name": "a"}, {"id": 1, "name": "b"}], "categories with the same id", "category 1: 'b'"),
        (
            [{"id": 1, "name": "a"}, {"id": 2, "name": "a"}],
            "categories with the same name",
            "category 2 and category 1",
        ),
        ([{"id": 1, "name": "a", "frequency": "x"}], "categories with a missing or wrong field", "category 1: freq"),
        (
            [{"id": 1, "name": "a", "frequency": "r"}, {"id": 2, "name": "b"}],
            "categories without the frequency that others have",
            "category 2",
        ),
        (
            [{"id": 1, "name": "a", "frequency": "c", "image_count": 101}],
            "categories with more images than their frequency allows",
            "category 1: frequency c is up to 100 images, image_count is 101",
        ),
    ],
)
def test_each_fault_of_categories_is_found(records, kind, first):
    found, _ = categories(*records)
    assert only(found)[0] == kind
    assert re.match(first, only(found)[1])


@pytest.mark.parametrize(
    ("records", "kind", "first"),
    [
        ([], "no images", "images is empty"),
        ([image(-1)], "images with a missing or wrong field", "image number 1: id"),
        ([image(1, height=0)], "images with a missing or wrong field", "image 1: height: expected a whole number"),
        ([image(1, height=10**5, width=10**5)], "images with a missing or wrong field", "image 1: height: expected up"),
        ([image(1, file_name=3)], "images with a missing or wrong field", "image 1: file_name: expected a text, got 3"),
        ([image(1, file_name="")], "images with a missing or wrong field", "image 1: file_name: expected a path"),
        ([image(1, file_name="../a.png")], "image paths that leave the folder", "image 1: file_name: expected a path"),
        ([image(1), image(1)], "images with the same id", "image 1: '1.png'"),
        ([image(1), image(2, file_name="1.png")], "images with the same file", "image 2 and image 1: '1.png'"),
        ([image(1, neg_category_ids=[9])], "unknown categories in neg_category_ids", "image 1: category 9"),
        ([image(1, neg_category_ids="x")], "images with a missing or wrong field", "image 1: neg_category_ids"),
        (
            [image(1, neg_category_ids=[1], not_exhaustive_category_ids=[1])],
            "categories both absent and not exhaustive",
            "image 1: category 1",
        ),
        (
            [image(1, neg_category_ids=[1]), image(2)],
            "images without the federated lists that others have",
            "image 2: neg_category_ids",
        ),
    ],
)
def test_each_fault_of_images_is_found(records, kind, first):
    found, _ = images(*records)
    assert only(found)[0] == kind
    assert only(found)[1].startswith(first)


def test_records_that_cannot_be_used_are_left_out():
    _, known = images(image(1), image(2, width=-4), image(3))
    assert list(known) == ["1", "3"]


def test_records_that_are_not_objects_are_reported_and_skipped():
    found = FindingCollector()
    named = list(objects(found, "image", raw(3, image(4), [1], {"name": "x"})))
    assert [name for name, _ in named] == ["image 4", "image number 4"]
    (finding,) = found.findings()
    assert (finding.count, finding.first) == (2, "image number 1: 3")


@pytest.mark.parametrize(
    ("value", "number", "finite"),
    [
        (0, True, True),
        (10**400, True, False),
        (1.0, True, True),
        (math.nan, True, False),
    ],
)
def test_numbers_and_finite_numbers_are_told_apart(value, number, finite):
    assert (is_number(value), is_finite(value)) == (number, finite)


@pytest.mark.parametrize("value", [True, "1", None, [1]])
def test_other_values_are_no_numbers(value):
    assert not is_number(value)
