"""Scores: from the logits of a head to category probabilities, apart from the loss that trained it."""

import math
from typing import Protocol

from torch import Tensor


class Scores(Protocol):
    """What turns the logits of a head into scores: any object with these two, such as those below."""

    def num_logits(self, num_classes: int) -> int:
        """Columns the head must have for C categories."""
        ...

    def __call__(self, logits: Tensor) -> Tensor:
        """Scores (N, C, ...) of logits (N, num_logits, ...)."""
        ...


class SoftmaxScores:
    """softmax(z): one winner among C logits (cross-entropy family)."""

    def num_logits(self, num_classes: int) -> int:
        """Columns the head must have."""
        return num_classes

    def __call__(self, logits: Tensor) -> Tensor:
        """Scores (N, C, ...) of logits (N, C, ...)."""
        return logits.softmax(1)


class SigmoidScores:
    """sigmoid(z_j): C independent answers (binary cross-entropy and focal family)."""

    def num_logits(self, num_classes: int) -> int:
        """Columns the head must have."""
        return num_classes

    def __call__(self, logits: Tensor) -> Tensor:
        """Scores (N, C, ...) of logits (N, C, ...)."""
        return logits.sigmoid()


class SigmoidObjectnessScores:
    """sigmoid(z_j) * sigmoid(z_obj): the last column is the objectness branch (Sec. 5.1.2)."""

    def num_logits(self, num_classes: int) -> int:
        """Columns the head must have."""
        return num_classes + 1

    def __call__(self, logits: Tensor) -> Tensor:
        """Scores (N, C, ...) of logits (N, C + 1, ...)."""
        return logits[:, :-1].sigmoid() * logits[:, -1:].sigmoid()


class SoftmaxObjectnessScores:
    """softmax_j(z) * sigmoid(z_obj): the last column is the objectness branch, outside the softmax."""

    def num_logits(self, num_classes: int) -> int:
        """Columns the head must have."""
        return num_classes + 1

    def __call__(self, logits: Tensor) -> Tensor:
        """Scores (N, C, ...) of logits (N, C + 1, ...)."""
        return logits[:, :-1].softmax(1) * logits[:, -1:].sigmoid()


def bias_for_prior(probability: float) -> float:
    """Classifier bias at which every sigmoid starts at `probability`: 0.001, the paper's prior, is -6.9068.

    A sigmoid head that starts at p = 0.5 pays 0.69 for each of its C categories on every sample, and training explodes.

        torch.nn.init.constant_(head.bias, equigrad.bias_for_prior(0.001))
    """
    if not 0 < probability < 1:
        raise ValueError(f"probability must be between 0 and 1, got {probability}")
    return -math.log((1 - probability) / probability)
