"""The formulas of the paper written down plainly, for autograd: slow, full matrices, no code of the library."""

import torch
import torch.nn.functional as F
from torch import Tensor

from equigrad import IGNORE


def rows(values: Tensor) -> Tensor:
    """(N, C, ...) as (samples, C)."""
    return values.movedim(1, -1).reshape(-1, values.shape[1])


def one_hot(labels: Tensor, num_classes: int) -> Tensor:
    """(samples, C) of 0/1; no 1 in a background or ignored row."""
    return (labels.reshape(-1, 1) == torch.arange(num_classes)).double()


def counted(labels: Tensor) -> Tensor:
    """(samples, 1) of 0/1: which samples count."""
    return (labels.reshape(-1, 1) != IGNORE).double()


def weighted_bce(logits, labels, positive_weight, negative_weight):
    y = one_hot(labels, logits.shape[1])
    cost = F.binary_cross_entropy_with_logits(rows(logits), y, reduction="none")
    return (counted(labels) * (positive_weight * y + negative_weight * (1 - y)) * cost).sum()


def weighted_focal(logits, labels, focus, positive_weight, negative_weight):
    y = one_hot(labels, logits.shape[1])
    z = rows(logits)
    log_p_t = F.logsigmoid(torch.where(y == 1, z, -z))
    weight = positive_weight * y + negative_weight * (1 - y)
    return -(counted(labels) * weight * (1 - log_p_t.exp()) ** focus * log_p_t).sum()


def weighted_quality_focal(logits, labels, quality, focus, weight):
    target = one_hot(labels, logits.shape[1]) * quality.reshape(-1, 1)
    z = rows(logits)
    cost = F.binary_cross_entropy_with_logits(z, target, reduction="none")
    return (counted(labels) * weight * (target - z.sigmoid()).abs() ** focus * cost).sum()


def margin_cross_entropy(logits, labels, margin):
    return F.cross_entropy(rows(logits) + margin, labels.reshape(-1), ignore_index=IGNORE, reduction="sum")


def gradient_sums(gradient: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Column sums of |gradient| over the labelled and over all other entries."""
    y = one_hot(labels, gradient.shape[1])
    magnitude = rows(gradient).abs()
    return (magnitude * y).sum(0), (magnitude * (1 - y)).sum(0)
