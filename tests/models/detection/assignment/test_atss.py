"""ATSS against golden numbers, plain loops and its own rules."""

import math
import statistics

import pytest
import torch
from hypothesis import assume, given, strategies as st
from torch.testing import assert_close

from equigrad.models.detection.anchors import AnchorGrid
from equigrad.models.detection.assignment.atss import ATSSAssigner
from equigrad.models.detection.box_coders import DeltaCoder
from models.detection_cases import anchors, assert_order_of_objects_is_irrelevant, centre, iou, objects


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_reproduces_the_published_assignment(golden, dtype):
    case = golden("atss_assign")
    height, width = case["image_size"]
    grid = AnchorGrid(case["strides"], case["anchor_scales"], centre_offset=case["centre_offset"])
    levels = grid([(height // stride, width // stride) for stride in case["strides"]], dtype=dtype)
    assert [len(level) for level in levels] == case["num_anchors_per_level"]
    boxes, labels = torch.tensor(case["gt_boxes"], dtype=dtype), torch.tensor(case["gt_labels"])
    result = ATSSAssigner(case["k"])(levels, boxes, labels)
    assert result.positives.tolist() == case["positive_anchor_index"]
    assert result.labels[result.positives].tolist() == case["positive_label"]
    deltas = DeltaCoder().encode(torch.cat(levels)[result.positives], boxes[result.matched[result.positives]])
    assert_close(deltas, torch.tensor(case["positive_delta_target"], dtype=dtype))


def plain_atss(levels, boxes, num_candidates):
    """(matched, distance of the closest decision) of anchors, in plain Python."""
    flat = [anchor for level in levels for anchor in level]
    claims, closest = {}, math.inf
    for number, box in enumerate(boxes):
        start, candidates = 0, []
        for level in levels:
            distances = [math.dist(centre(anchor), centre(box)) ** 2 for anchor in level]
            nearest = sorted(range(len(level)), key=lambda place: (round(distances[place], 6), place))
            candidates += [start + place for place in nearest[:num_candidates]]
            start += len(level)
        overlaps = [iou(flat[place], box) for place in candidates]
        threshold = statistics.mean(overlaps) + (statistics.stdev(overlaps) if len(overlaps) > 1 else 0)
        for place, overlap in zip(candidates, overlaps, strict=True):
            (x, y), (x1, y1, x2, y2) = centre(flat[place]), box
            closest = min(closest, abs(overlap - threshold))
            if overlap >= threshold and min(x - x1, y - y1, x2 - x, y2 - y) > 0.01:
                claims.setdefault(place, []).append((-overlap, number))
    return [min(claims[place])[1] if place in claims else -1 for place in range(len(flat))], closest


@given(objects(), st.integers(1, 20), st.sampled_from([(2,), (2, 3), (1, 2, 4)]))
def test_agrees_with_plain_loops(case, num_candidates, scales):
    boxes, labels = case
    levels = anchors(scales)
    matched, closest = plain_atss([level.tolist() for level in levels], boxes.tolist(), num_candidates)
    assume(closest > 1e-9)  # where an overlap equals the threshold, rounding decides
    assert ATSSAssigner(num_candidates)(levels, boxes, labels).matched.tolist() == matched


@given(st.integers(0, 999), st.integers(2, 8))
def test_the_order_of_objects_does_not_matter(seed, num_objects):
    assert_order_of_objects_is_irrelevant(ATSSAssigner(18), anchors(), seed, num_objects)


def test_legacy_boxes_give_the_assignment_of_plain_ones():
    boxes = torch.tensor([[3.0, 5, 30, 41], [20, 9, 50, 30], [40, 30, 61, 45]], dtype=torch.float64)
    plain = ATSSAssigner(18)(anchors((6, 8)), boxes, torch.arange(3))
    legacy_boxes = boxes - torch.tensor([0, 0, 1, 1])
    legacy = ATSSAssigner(18, legacy_pixels=True)(anchors((6, 8), legacy_pixels=True), legacy_boxes, torch.arange(3))
    assert plain.labels.tolist() == legacy.labels.tolist()
    assert len(plain.positives) > 3


def test_an_image_without_objects_is_background():
    result = ATSSAssigner()(anchors(), torch.empty(0, 4), torch.empty(0, dtype=torch.int64))
    assert result.labels.tolist() == result.matched.tolist() == [-1] * sum(map(len, anchors()))


def test_there_must_be_a_candidate():
    with pytest.raises(ValueError, match="num_candidates must be at least 1, got 0"):
        ATSSAssigner(0)
