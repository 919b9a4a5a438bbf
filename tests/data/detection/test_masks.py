import os
import pickle

import numpy as np
import pycocotools.mask as coco_mask
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as arrays

from detection_on_disk import annotation, coco, write_json
from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.detection.masks import (
    RunLengthMask,
    decode_counts,
    rle_to_mask,
    rle_to_window,
    shape_to_rle,
)

masks = st.tuples(st.integers(1, 24), st.integers(1, 24)).flatmap(
    lambda size: arrays.arrays(np.uint8, size, elements=st.integers(0, 1))
)


def runs_of(mask):
    """Run lengths down the columns, beginning with zeros: worked out apart from the code under test."""
    runs, value = [0], 0
    for pixel in mask.T.ravel().tolist():
        if pixel != value:
            runs.append(0)
            value = pixel
        runs[-1] += 1
    return runs


@given(masks)
def test_masks_survive_both_kinds_of_run_lengths(mask):
    packed = coco_mask.encode(np.asfortranarray(mask))
    for counts in (packed["counts"].decode(), runs_of(mask)):
        rle = shape_to_rle(RunLengthMask(mask.shape, counts), *mask.shape)
        assert rle == {"size": list(mask.shape), "counts": packed["counts"]}
        np.testing.assert_array_equal(rle_to_mask(rle), mask)
        left, top, window = rle_to_window(rle)
        whole = np.zeros_like(mask)
        whole[top : top + window.shape[0], left : left + window.shape[1]] = window
        np.testing.assert_array_equal(whole, mask)
        assert [left, top, window.shape[1], window.shape[0]] == coco_mask.toBbox(rle).tolist()
    assert decode_counts(packed["counts"]).tolist() == runs_of(mask)


coordinates = st.floats(-40, 80, allow_nan=False).map(lambda value: round(value, 2))
outlines = st.lists(coordinates, min_size=6, max_size=16).map(lambda values: values[: len(values) // 2 * 2])


@given(st.lists(outlines, min_size=1, max_size=3), st.integers(1, 40), st.integers(1, 40))
def test_polygons_are_drawn_as_pycocotools_draws_them(polygons, height, width):
    expected = coco_mask.merge(coco_mask.frPyObjects(polygons, height, width))
    rle = shape_to_rle(polygons, height, width)
    assert rle == expected
    np.testing.assert_array_equal(rle_to_mask(rle), coco_mask.decode(expected))


def test_a_square_covers_its_pixels():
    mask = rle_to_mask(shape_to_rle([[1.0, 2.0, 3.0, 2.0, 3.0, 5.0, 1.0, 5.0]], 6, 4))
    expected = np.zeros((6, 4), np.uint8)
    expected[2:5, 1:3] = 1
    np.testing.assert_array_equal(mask, expected)


@given(st.binary(max_size=12))
def test_no_text_of_counts_makes_a_mask_that_does_not_fit(text):
    shape = RunLengthMask((3, 4), text.decode("latin-1"))
    try:
        rle = shape_to_rle(shape, 3, 4)
    except ValueError as error:
        assert str(error).startswith("segmentation: ")  # noqa: PT017 - either is right, by chance of the text
    else:
        np.testing.assert_array_equal(rle_to_mask(rle), coco_mask.decode(rle))


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ([[1.0, 2.0, 3.0, 4.0]], r"polygons of 6, 8, ... numbers, got 4"),  # pycocotools would draw a box
        ([[1.0] * 7], r"got 7"),
        ([[]], r"got 0"),
        ([[0.0, 0.0, 1e12, 0.0, 0.0, 1e12]], "too large to draw"),
        ([[0.0, 0.0, 5e5, 0.0] * 10], "too large to draw"),
        (RunLengthMask((4, 3), "0<"), r"size: expected that of the image, \[3, 4\], got \[4, 3\]"),
        (RunLengthMask((3, 4), [5, 6]), "runs that cover 12 pixels, got 11"),
        (RunLengthMask((3, 4), [13, -1]), "numbers from 0"),
        (RunLengthMask((3, 4), []), "numbers from 0"),
        (RunLengthMask((3, 4), ""), "not run lengths"),
        (RunLengthMask((3, 4), "oooo"), "cut off"),
        (RunLengthMask((3, 4), "é"), "not run lengths"),
        (RunLengthMask((3, 4), "o" * 9 + "0"), "too long for any image"),
    ],
)
def test_what_is_no_mask_is_refused_before_c_code_sees_it(shape, message):
    with pytest.raises(ValueError, match=message):
        shape_to_rle(shape, 3, 4)


def test_a_large_outline_that_is_long_only_by_its_bound_is_drawn():
    corners = np.stack([np.linspace(0, 9000, 3000), np.zeros(3000)], 1).ravel().tolist()
    assert rle_to_mask(shape_to_rle([[*corners, 9000.0, 2.0, 0.0, 2.0]], 4, 9000)).sum() == 18000


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "the annotation has none"),
        ({"segmentation": []}, "got an empty value"),
        ({"segmentation": None}, "got an empty value"),
        ({"segmentation": "abc"}, "expected polygons or run lengths"),
        ({"segmentation": [["a"]]}, "expected polygons or run lengths"),
        ({"segmentation": {"size": [8, 12]}}, "expected polygons or run lengths"),
    ],
)
def test_a_mask_that_cannot_be_read_names_annotation_and_field(tmp_path, fields, message):
    records = [annotation(3, **fields), annotation(4, segmentation=[[0, 0, 1, 0, 1, 1]])]
    data = read_coco(write_json(tmp_path / "a.json", coco(annotations=records)))
    with pytest.raises(ValueError, match=rf"a.json: annotation 3: segmentation: .*{message}"):
        data.rle(0)
    assert data.mask(1).shape == (8, 12)


def test_a_file_that_changed_is_not_read_at_the_old_places(tmp_path):
    file = write_json(tmp_path / "a.json", coco())
    data = read_coco(file)
    write_json(file, coco(annotations=[annotation(1)]))
    os.utime(file, ns=(1, 1))
    with pytest.raises(OSError, match=r"a.json: changed since it was read"):
        data.mask(0)


def test_an_open_file_may_be_replaced(tmp_path):
    file = write_json(tmp_path / "a.json", coco())
    data = read_coco(file)
    before = data.mask(0)
    write_json(tmp_path / "b.json", coco(annotations=[])).replace(file)
    np.testing.assert_array_equal(data.mask(0), before)


def test_pickled_masks_are_places_and_not_text(tmp_path):
    long = [[float(value % 7) for value in range(20_000)]]
    data = read_coco(write_json(tmp_path / "a.json", coco(annotations=[annotation(1, segmentation=long)])))
    data.mask(0)  # an open file must not stand in the way
    pickled = pickle.dumps(data)
    assert len(pickled) < 5000
    np.testing.assert_array_equal(pickle.loads(pickled).mask(0), data.mask(0))
