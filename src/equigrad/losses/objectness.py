"""A category loss with the objectness branch beside it (Sec. 5.1.2)."""

import torch
from torch import Tensor, nn

from equigrad.labels import BACKGROUND, IGNORE
from equigrad.losses import functional, reference
from equigrad.losses.category_loss import CategoryLoss
from equigrad.losses.inputs import check_labels, check_logits, has_target_matrix
from equigrad.losses.kernel_choice import kernels_for
from equigrad.losses.operators import as_operator


class WithObjectness(nn.Module):
    """Adds an objectness column that separates samples with a category from background.

    Logits are (N, C + 1, ...). The last column is trained with plain BCE, positive on every sample with a category,
    reduced like the loss inside and with its `ignore_index`, and never enters the statistics. A softmax loss inside
    sees background as ignored. For inference take `SigmoidObjectnessScores` or `SoftmaxObjectnessScores`.

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
        is_matrix = has_target_matrix(category_logits, labels)
        is_fused = self.loss.takes_objectness and self.loss.reduction != "none" and not is_matrix
        loss: Tensor
        if is_fused and kernels_for(logits.device) == "triton":
            loss = self.loss(logits, labels, *quality, normalizer=normalizer, objectness=True)
            return loss
        ignore_index = self.loss.ignore_index
        checked, _ = check_labels(
            category_logits,
            labels,
            background=True,
            multi_label=self.loss.takes_background,
            ignore_index=ignore_index,
        )
        if self.loss.reduction == "none":
            objectness_loss = reference.objectness(logits, labels, ignore_index=ignore_index)
        else:
            options = self.loss.options(normalizer)
            options["ignore_index"] = IGNORE
            # Category 0 on every sample with a category, BACKGROUND and IGNORE as they are.
            column = torch.where(checked.bool().any(1), 0, BACKGROUND) if is_matrix else checked.clamp(max=0)
            objectness_loss, _ = as_operator(functional.binary_cross_entropy)(objectness, column, **options)
        if not self.loss.takes_background:
            labels = torch.where(labels == BACKGROUND, ignore_index, labels)
        loss = self.loss(category_logits, labels, *quality, normalizer=normalizer)
        return loss + objectness_loss
