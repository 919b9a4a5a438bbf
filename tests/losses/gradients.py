"""What autograd says the statistics must record."""

import torch
from torch import Tensor


def rows(values: Tensor) -> Tensor:
    """(N, C, ...) as (samples, C)."""
    return values.movedim(1, -1).reshape(-1, values.shape[1])


def one_hot(labels: Tensor, num_classes: int) -> Tensor:
    """(samples, C) of 0/1; no 1 in a background or ignored row."""
    return (labels.reshape(-1, 1) == torch.arange(num_classes)).double()


def gradient_sums(gradient: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Column sums of |gradient| over the labelled and over all other entries."""
    y = one_hot(labels, gradient.shape[1])
    magnitude = rows(gradient).abs()
    return (magnitude * y).sum(0), (magnitude * (1 - y)).sum(0)
