"""Cross-entropy of a two-stage detector, which keeps the gradient statistics of the categories."""

from torch import Tensor

from equigrad.losses import functional
from equigrad.losses.blockwise import GradientSums
from equigrad.losses.equalization import EqualizationLoss
from equigrad.losses.operators import as_operator


class BackgroundCrossEntropyLoss(EqualizationLoss):
    """Cross-entropy of C categories and background, whose column is the last of C + 1.

    The statistics are those of the C categories, and change nothing.

    Args:
        num_classes: C, without background.
    """

    takes_background = False  # it is a label as the others are

    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes, half_life=None, reduction="mean")

    def forward(self, logits: Tensor, labels: Tensor, *, normalizer: float | Tensor | None = None) -> Tensor:
        """Loss of logits (N, C + 1) against labels (N,), of which C is background."""
        loss, sums = as_operator(functional.cross_entropy)(logits, labels, **self.options(normalizer))
        positive, negative = (part[: self.num_classes] for part in sums[:2])
        self.record(GradientSums(positive, negative, sums.divisor))
        return loss
