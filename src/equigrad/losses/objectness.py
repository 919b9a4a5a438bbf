"""A category loss with the objectness branch beside it (Sec. 5.1.2)."""

import torch
from torch import Tensor, nn

from equigrad.labels import BACKGROUND, IGNORE
from equigrad.losses import functional
from equigrad.losses.category_loss import CategoryLoss
from equigrad.losses.inputs import check_labels, check_logits, is_multi_label


class WithObjectness(nn.Module):
    """Adds an objectness column that tells samples with a category from background.

    Logits are (N, C + 1, ...). The last column is trained with plain BCE, positive on every sample with a category,
    reduced like the loss inside, and never enters the statistics. A softmax loss inside sees background as ignored.
    For inference take `SigmoidObjectnessScores` or `SoftmaxObjectnessScores`.

    Args:
        loss: the loss of the C category columns.
    """

    def __init__(self, loss: CategoryLoss) -> None:
        super().__init__()
        if not isinstance(loss, CategoryLoss):
            raise TypeError(f"loss must be a category loss of equigrad, got {type(loss).__name__}")
        self.loss = loss

    def forward(
        self, logits: Tensor, labels: Tensor, *quality: Tensor, normalizer: float | Tensor | None = None
    ) -> Tensor:
        """Loss of logits (N, C + 1, ...) against labels (N, ...); a quality loss inside also takes its quality."""
        check_logits(logits)
        category_logits, objectness = logits.tensor_split([logits.shape[1] - 1], dim=1)
        check_labels(category_logits, labels, background=True, multi_label=self.loss.takes_background)
        objectness_loss, _ = functional.weighted_bce(
            objectness,
            _objectness_labels(category_logits, labels),
            reduction=self.loss.reduction,
            normalizer=normalizer,
        )
        if not self.loss.takes_background:
            labels = torch.where(labels == BACKGROUND, IGNORE, labels)
        category_loss: Tensor = self.loss(category_logits, labels, *quality, normalizer=normalizer)
        return category_loss + objectness_loss


def _objectness_labels(logits: Tensor, labels: Tensor) -> Tensor:
    """Category 0 on every sample with a category, BACKGROUND and IGNORE as they are."""
    if is_multi_label(logits, labels):
        return torch.where(labels.bool().any(1), 0, BACKGROUND)
    return labels.clamp(max=0)
