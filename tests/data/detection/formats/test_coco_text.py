import json
import math

import msgspec
import pytest
from hypothesis import given, strategies as st

from detection_on_disk import coco, write_json
from equigrad.data.detection.formats.coco_text import decoded, fault, open_coco
from hostile_files import refusal

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def same(left, right):
    """Equality in which nan is equal to nan."""
    return json.dumps(left) == json.dumps(right)


@given(st.lists(st.dictionaries(st.text(max_size=4), values, max_size=4), max_size=4), st.sampled_from([None, 0, 3]))
def test_every_record_is_decoded_to_what_was_written_even_nan(tmp_path_factory, records, indent):
    content = {"images": [], "annotations": records, "categories": []}
    file = write_json(tmp_path_factory.mktemp("text") / "a.json", json.dumps(content, indent=indent))
    text = open_coco(file)
    assert same([decoded(record) for record in text.sections.annotations], records)
    starts, lengths = text.spans(text.sections.annotations)
    stored = file.read_bytes()
    for record, start, length in zip(records, starts, lengths, strict=True):
        assert same(json.loads(stored[start : start + length]), record)


def test_infinities_and_nan_are_numbers_and_strings_that_look_like_them_are_not(tmp_path):
    file = write_json(tmp_path / "a.json", coco([{"a": [math.inf, -math.inf, math.nan], "NaN": "-Infinity, NaN"}]))
    (record,) = open_coco(file).sections.images
    content = decoded(record)
    assert content["a"][:2] == [math.inf, -math.inf]
    assert math.isnan(content["a"][2])
    assert content["NaN"] == "-Infinity, NaN"


def test_a_file_of_test_images_needs_no_annotations(tmp_path):
    text = open_coco(write_json(tmp_path / "a.json", {"images": [], "categories": []}))
    assert text.sections.annotations == []
    assert text.stamp == ((tmp_path / "a.json").stat().st_size, (tmp_path / "a.json").stat().st_mtime_ns)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.json: the annotation file is empty"),
        ('{"images": [', "a.json: not a complete JSON file, it ends at byte 12"),
        ("hello", "a.json: not a JSON file, "),
        ("[]", "a.json: expected an object with the lists images, annotations and categories"),
        ('{"images": [], "categories": 3}', "categories: categories: expected array, got int"),
        ('{"images": [NaN, }', "a.json: not a JSON file"),
    ],
)
def test_what_is_no_annotation_file_gets_one_line_that_names_it(tmp_path, text, message):
    with pytest.raises(ValueError, match=message) as caught:
        open_coco(write_json(tmp_path / "a.json", text))
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"gone\.json: no such annotation file"):
        open_coco(tmp_path / "gone.json")


class Box(msgspec.Struct):
    bbox: tuple[float, float]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"id": 4, "bbox": [1]}, "annotation 4: bbox: expected array of length 2, and bbox is [1]"),
        ({"bbox": "x"}, "annotation number 3: bbox: expected array, got str, and bbox is 'x'"),
        ({"id": 4}, "annotation 4: object missing required field bbox"),
        (7, "annotation number 3: expected object, got int"),
    ],
)
def test_a_record_that_cannot_be_decoded_is_named_with_its_field(tmp_path, record, message):
    text = msgspec.Raw(json.dumps(record).encode())
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(text, type=Box)
    assert fault(tmp_path / "a.json", "annotation", 2, text, caught.value) == f"{tmp_path / 'a.json'}: {message}"


@pytest.mark.parametrize(
    "text",
    ["[" * 10_000_000, '{"images": [' + '{"a":' * 5_000_000, '{"images": [], "categories": [{"id": ' + "9" * 5_000_000],
    ids=["lists", "objects", "number"],
)
def test_a_hostile_file_is_refused(tmp_path, text):
    file = tmp_path / "a.json"
    file.write_text(text)
    assert refusal(open_coco, file).startswith(f"{file}: ")
