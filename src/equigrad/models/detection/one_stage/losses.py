"""Losses of boxes and of their quality, over the positive anchors of a dense detector."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from equigrad.models.detection.boxes import centres, paired_generalized_iou, paired_iou
from equigrad.models.detection.one_stage.predictions import BoxCoder
from equigrad.statistics import is_distributed, sum_over_ranks


class Positives(NamedTuple):
    """The positive anchors of a batch, n of them."""

    anchors: Tensor  # (n, 4)
    values: Tensor  # (n, 4)  box values the head predicts
    boxes: Tensor  # (n, 4)  the same decoded
    targets: Tensor  # (n, 4)  boxes of the objects


class BoxLoss(Protocol):
    """A loss of the boxes of positive anchors."""

    is_weighted: bool
    """Whether a positive is weighted by its quality, and the sum divided by the sum of qualities."""

    first_epoch: int
    """Epoch, counted from 0, that it begins with."""

    def __call__(self, positives: Positives) -> Tensor:
        """Loss (n,) of each positive."""
        ...


@dataclass
class OverlapLoss:
    """A loss of decoded boxes.

    Args:
        function: from boxes (n, 4) and their targets (n, 4) to losses (n,).
        weight: weight of the loss.
        is_weighted: see `BoxLoss`.
        first_epoch: see `BoxLoss`.
    """

    function: Callable[[Tensor, Tensor], Tensor]
    weight: float = 1.0
    is_weighted: bool = False
    first_epoch: int = 0

    def __call__(self, positives: Positives) -> Tensor:
        """Loss (n,) of each positive."""
        return self.weight * self.function(positives.boxes, positives.targets)


@dataclass
class ValueLoss:
    """L1 between the predicted box values and the encoded targets, summed over the four values.

    Args:
        coder: box coder of the detector.
        weight: weight of the loss.
        is_weighted: see `BoxLoss`.
        first_epoch: see `BoxLoss`.
    """

    coder: BoxCoder
    weight: float = 1.0
    is_weighted: bool = False
    first_epoch: int = 0

    def __call__(self, positives: Positives) -> Tensor:
        """Loss (n,) of each positive."""
        targets = self.coder.encode(positives.anchors, positives.targets)
        return self.weight * (positives.values - targets).abs().sum(-1)


def generalized_iou_loss(boxes: Tensor, targets: Tensor, *, legacy_pixels: bool = False) -> Tensor:
    """1 - GIoU, (n,)."""
    return 1 - paired_generalized_iou(boxes, targets, legacy_pixels=legacy_pixels)


def squared_iou_loss(boxes: Tensor, targets: Tensor) -> Tensor:
    """1 - IoU^2, (n,), as in YOLOX."""
    return 1 - paired_iou(boxes, targets) ** 2


@dataclass
class QualityBranch:
    """What the quality output of a head is trained to predict, with binary cross-entropy.

    Args:
        target: from the positives to the target of the quality, (n,) in [0, 1].
        weight: weight of its loss.
        on_background: whether background is trained, too, with target 0 (objectness).
    """

    target: Callable[[Positives], Tensor]
    weight: float = 1.0
    on_background: bool = False


def iou_quality(positives: Positives, *, legacy_pixels: bool = False) -> Tensor:
    """IoU of the predicted box with its object, (n,)."""
    return paired_iou(positives.boxes, positives.targets, legacy_pixels=legacy_pixels)


def centreness(positives: Positives) -> Tensor:
    """Centre-ness of the anchor in its object, (n,): 1 in the middle, 0 at a side (FCOS)."""
    points = centres(positives.anchors)
    before, after = points - positives.targets[:, :2], positives.targets[:, 2:] - points  # (n, 2) each
    share = torch.minimum(before, after).clamp(min=0) / torch.maximum(before, after).clamp(min=1e-6)
    return share.prod(-1).sqrt()


def objectness(positives: Positives) -> Tensor:
    """Target of the objectness, (n,): 1 for every positive."""
    return torch.ones_like(positives.targets[:, 0])


def average_over_ranks(totals: Tensor) -> Tensor:
    """Normalizers from totals of this rank (any shape): their average over the ranks; the sum counts as at least 1.

    So N ranks together divide by what one rank would on the joined batch. Every rank must call.
    """
    world_size = dist.get_world_size() if is_distributed() else 1
    return sum_over_ranks(totals.detach().double().clone()).clamp(min=1) / world_size
