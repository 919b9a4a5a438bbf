"""Box coders invert, and say what the published heads predict."""

import math

import pytest
import torch
from hypothesis import given, strategies as st
from torch.testing import assert_close

from equigrad.models.detection.box_coders import LARGEST_GROWTH, CentreCoder, DeltaCoder, DistanceCoder

CODERS = {
    "deltas": DeltaCoder(),
    "scaled deltas": DeltaCoder(std=(0.1, 0.2)),
    "legacy deltas": DeltaCoder(legacy_pixels=True),
    "distances": DistanceCoder(),
    "distances in pixels": DistanceCoder(in_strides=False),
    "centres": CentreCoder(),
}


@st.composite
def box(draw, smallest=0.5, largest=300.0):
    place, side = st.floats(-100, 1000), st.floats(smallest, largest)
    x, y, w, h = draw(place), draw(place), draw(side), draw(side)
    return torch.tensor([x, y, x + w, y + h], dtype=torch.float64)


@pytest.mark.parametrize("coder", CODERS.values(), ids=CODERS)
@given(boxes=st.lists(box(), min_size=1, max_size=4), reference=box(smallest=8.0))
def test_decoding_inverts_encoding(coder, boxes, reference):
    boxes = torch.stack(boxes)
    references = reference.expand_as(boxes)
    assert_close(coder.decode(references, coder.encode(references, boxes)), boxes, atol=1e-6, rtol=1e-9)


@pytest.mark.parametrize("coder", CODERS.values(), ids=CODERS)
def test_nothing_to_code_is_fine(coder):
    nothing = torch.empty(0, 4)
    assert coder.encode(nothing, nothing).shape == coder.decode(nothing, nothing).shape == (0, 4)


@pytest.mark.parametrize("coder", CODERS.values(), ids=CODERS)
def test_a_box_without_area_has_finite_values(coder):
    assert coder.encode(torch.tensor([[0.0, 0, 8, 8]]), torch.tensor([[3.0, 3, 3, 3]])).isfinite().all()


def test_deltas_by_hand():
    values = DeltaCoder().encode(torch.tensor([0.0, 0, 10, 20]), torch.tensor([5.0, 5, 25, 25]))
    assert_close(values, torch.tensor([1.0, 0.25, math.log(2), 0.0]))


def test_legacy_deltas_count_the_last_pixel():
    values = DeltaCoder(legacy_pixels=True).encode(torch.tensor([0.0, 0, 9, 19]), torch.tensor([5.0, 5, 24, 24]))
    assert_close(values, torch.tensor([1.0, 0.25, math.log(2), 0.0]))


def test_growth_is_bounded():
    decoded = DeltaCoder().decode(torch.tensor([0.0, 0, 16, 16]), torch.tensor([0.0, 0, 99, LARGEST_GROWTH]))
    assert_close(decoded, torch.tensor([-492.0, -492, 508, 508]))


def test_distances_are_in_strides():
    cell, box = torch.tensor([8.0, 8, 16, 16]), torch.tensor([4.0, 0, 20, 52])
    assert DistanceCoder().encode(cell, box).tolist() == [1, 1.5, 1, 5]
    assert DistanceCoder(in_strides=False).encode(cell, box).tolist() == [8, 12, 8, 40]


def test_centres_are_from_the_corner_of_the_cell():
    values = CentreCoder().encode(torch.tensor([8.0, 8, 16, 16]), torch.tensor([4.0, 0, 20, 32]))
    assert_close(values, torch.tensor([0.5, 1.0, math.log(2), math.log(4)]))


@pytest.mark.parametrize("coder", CODERS.values(), ids=CODERS)
def test_half_precision_is_decoded_in_float32(coder):
    values = torch.ones(1, 4, dtype=torch.float16)
    assert coder.decode(torch.tensor([[0.0, 0, 8, 8]]), values).dtype == torch.float32
