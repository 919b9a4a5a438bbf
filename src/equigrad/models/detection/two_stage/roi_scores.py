"""Background and objectness of two-stage detectors: softmax with a background column, and objectness as two columns.

| loss | columns | scores | settings of the head |
|---|---|---|---|
| `CrossEntropyLoss()` | C + 1 | `SoftmaxBackgroundScores()` | `background_column=C` |
| `BinaryCrossEntropyLoss()`, `GradientBlockingLoss(…)` | C | `SigmoidScores()` | |
| `WithObjectness(SigmoidEqualizationLoss(C))` | C + 1 | `SigmoidObjectnessScores()` | |
| `WithObjectness(SoftmaxEqualizationLoss(C))` | C + 1 | `SoftmaxObjectnessScores()` | `divide_by_rois=True` |
| `TwoWayObjectness(the same with SeesawLoss)` | C + 2 | `TwoWayObjectnessScores(the same)` | `divide_by_rois=True` |
| `GroupedSoftmaxLoss(counts)` | by group | `GroupedSoftmaxScores(counts)` | |

The sigmoid losses want `classifier=partial(RoIClassifier, prior=0.001)`.
"""

import torch
from torch import Tensor, nn

from equigrad.models.scores import Scores


class SoftmaxBackgroundScores:
    """softmax(z) over C categories and the background, which is the last column and no score."""

    def num_logits(self, num_classes: int) -> int:
        """Columns the head must have."""
        return num_classes + 1

    def __call__(self, logits: Tensor) -> Tensor:
        """Scores (N, C, ...) of logits (N, C + 1, ...)."""
        return logits.softmax(1)[:, :-1]


class TwoWayObjectness(nn.Module):
    """Objectness as a softmax of two columns, object and background, the layout published with the seesaw loss.

    That softmax is the sigmoid of their difference, so any loss with one objectness column can be used.

    Args:
        loss: loss of logits (N, C + 1), objectness last, such as `WithObjectness(SeesawLoss(C))`.
    """

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, logits: Tensor, labels: Tensor, *, normalizer: float | Tensor | None = None) -> Tensor:
        """Loss of logits (N, C + 2, ...) against labels (N, ...)."""
        loss: Tensor = self.loss(_one_objectness_column(logits), labels, normalizer=normalizer)
        return loss


class TwoWayObjectnessScores:
    """Scores of a head that `TwoWayObjectness` trained.

    Args:
        scores: with one objectness column.
    """

    def __init__(self, scores: Scores) -> None:
        self.scores = scores

    def num_logits(self, num_classes: int) -> int:
        """Columns the head must have."""
        return self.scores.num_logits(num_classes) + 1

    def __call__(self, logits: Tensor) -> Tensor:
        """Scores (N, C, ...) of logits (N, C + 2, ...)."""
        return self.scores(_one_objectness_column(logits))


def _one_objectness_column(logits: Tensor) -> Tensor:
    return torch.cat([logits[:, :-2], logits[:, -2:-1] - logits[:, -1:]], 1)
