import torch
from torch.testing import assert_close

from equigrad.models.detection.box_coders import DeltaCoder
from equigrad.models.detection.one_stage.losses import (
    OverlapLoss,
    Positives,
    ValueLoss,
    average_over_ranks,
    centreness,
    generalized_iou_loss,
    iou_quality,
    objectness,
    squared_iou_loss,
)

ANCHORS = torch.tensor([[0.0, 0, 8, 8]])
TARGETS = torch.tensor([[2.0, 1, 10, 9]])


def positives(values=(0.0, 0.0, 0.0, 0.0)):
    tensor = torch.tensor([values])
    return Positives(ANCHORS, tensor, DeltaCoder().decode(ANCHORS, tensor), TARGETS)


def test_centre_ness_worked_by_hand():
    # the centre (4, 4) is 2 and 6 from the sides at x, 3 and 5 from those at y
    assert_close(centreness(positives()), torch.tensor([(2 / 6 * 3 / 5) ** 0.5]))


def test_centre_ness_outside_the_object_is_zero():
    outside = positives()._replace(targets=torch.tensor([[5.0, 1, 10, 9]]))
    assert centreness(outside).item() == 0


def test_losses_of_a_box_worked_by_hand():
    # 6 x 7 in common, 86 together, 10 x 9 around both
    iou = 42 / 86
    assert_close(iou_quality(positives()), torch.tensor([iou]))
    assert_close(squared_iou_loss(ANCHORS, TARGETS), torch.tensor([1 - iou**2]))
    assert_close(generalized_iou_loss(ANCHORS, TARGETS), torch.tensor([1 - iou + 4 / 90]))
    assert_close(OverlapLoss(generalized_iou_loss, weight=2.0)(positives()), torch.tensor([2 * (1 - iou + 4 / 90)]))


def test_the_loss_of_values_is_summed_over_the_four():
    # the target is 2/8 and 1/8 off, and as large
    assert_close(ValueLoss(DeltaCoder())(positives((0.5, 0.0, -1.0, 0.25))), torch.tensor([0.25 + 0.125 + 1 + 0.25]))


def test_objectness_of_a_positive_is_one():
    assert objectness(positives()).tolist() == [1.0]


def test_a_normalizer_is_at_least_one():
    assert average_over_ranks(torch.tensor([0.0, 0.3, 7.5])).tolist() == [1.0, 1.0, 7.5]
