"""Overlap of boxes."""

import pytest
import torch
from hypothesis import given, strategies as st
from torch.testing import assert_close
from torchvision.ops import box_iou, generalized_box_iou_loss

from equigrad.models.detection.boxes import (
    areas,
    centres,
    clip,
    margins,
    paired_generalized_iou,
    paired_iou,
    pairwise_iou,
    sides,
)


def random_boxes(num, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    corners = 80 * torch.rand(num, 2, generator=generator, dtype=dtype)
    return torch.cat([corners, corners + 1 + 40 * torch.rand(num, 2, generator=generator, dtype=dtype)], 1)


def test_a_shifted_box_overlaps_by_hand():
    a, b = torch.tensor([[0.0, 0, 4, 4]]), torch.tensor([[2.0, 0, 6, 4], [4, 4, 8, 8], [0, 0, 4, 4]])
    assert_close(pairwise_iou(a, b), torch.tensor([[1 / 3, 0, 1]]))  # 8 of 24


def test_legacy_pixels_count_the_last_one():
    a, b = torch.tensor([[0.0, 0, 3, 3]]), torch.tensor([[2.0, 0, 5, 3]])  # 4 x 4 pixels each, two columns common
    assert_close(paired_iou(a, b, legacy_pixels=True), torch.tensor([1 / 3]))
    assert paired_iou(a, b) == pytest.approx(3 / 15)


def test_a_legacy_box_is_a_plain_one_that_ends_a_pixel_earlier():
    a, b = random_boxes(20), random_boxes(20, seed=1)
    last_pixel = torch.tensor([0, 0, 1, 1])
    for overlap in (paired_iou, paired_generalized_iou):
        assert_close(overlap(a - last_pixel, b - last_pixel, legacy_pixels=True), overlap(a, b))


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 99))
def test_pairwise_agrees_with_torchvision_and_with_pairs(num, others, seed):
    a, b = random_boxes(num, seed), random_boxes(others, seed + 100)
    overlaps = pairwise_iou(a, b)
    assert_close(overlaps, box_iou(a, b))
    assert_close(overlaps, paired_iou(a[:, None], b[None]))


@given(st.integers(0, 9), st.integers(0, 99))
def test_generalized_iou_and_its_gradient_agree_with_torchvision(num, seed):
    a, b = random_boxes(num, seed).requires_grad_(), random_boxes(num, seed + 100)
    ours, theirs = (1 - paired_generalized_iou(a, b)).sum(), generalized_box_iou_loss(a, b, reduction="sum")
    assert_close(ours, theirs, atol=1e-6, rtol=1e-6)
    assert_close(*(torch.autograd.grad(loss, a)[0] for loss in (ours, theirs)), atol=1e-6, rtol=1e-6)


def test_boxes_apart_attract_each_other():
    apart = torch.tensor([[0.0, 0, 2, 2]]).requires_grad_()
    other = torch.tensor([[6.0, 0, 8, 2]])
    value = paired_generalized_iou(apart, other)
    assert_close(value, torch.tensor([-0.5]))  # the enclosing box has 16, together they cover 8
    assert torch.autograd.grad(value.sum(), apart)[0][0, 2] > 0


@pytest.mark.parametrize(
    "box",
    [[3.0, 3, 3, 3], [0.0, 5, 9, 5], [8.0, 8, 2, 2], [1e6, 1e6, 1e6, 1e6]],
    ids=["point", "line", "inside out", "far"],
)
def test_degenerate_boxes_give_finite_values_and_gradients(box):
    for other in ([3.0, 3, 3, 3], [0.0, 0, 10, 10]):
        prediction = torch.tensor([box]).requires_grad_()
        for overlap in (paired_generalized_iou, paired_iou):
            value = overlap(prediction, torch.tensor([other]))
            assert -1 <= value.item() <= 1
            assert torch.autograd.grad(value.sum(), prediction)[0].isfinite().all()


def test_half_precision_is_widened():
    boxes = random_boxes(3).half()
    assert pairwise_iou(boxes, boxes).dtype == torch.float32
    assert paired_generalized_iou(boxes, boxes.bfloat16()).dtype == torch.float32


def test_parts_of_a_box():
    box = torch.tensor([2.0, 4, 8, 6])
    assert centres(box).tolist() == [5, 5]
    assert sides(box).tolist() == [6, 2]
    assert areas(box) == 12
    assert areas(box, legacy_pixels=True) == 21
    assert margins(torch.tensor([[5.0, 4.5], [9, 5]]), box).tolist() == [0.5, -1]


def test_clip_cuts_at_height_and_width():
    boxes = torch.tensor([[-3.0, -2, 50, 70], [1, 2, 3, 4]])
    assert clip(boxes, (20, 30)).tolist() == [[0, 0, 30, 20], [1, 2, 3, 4]]
