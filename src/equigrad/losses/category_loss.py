"""The base class of all losses: labels, reduction, errors."""

from typing import TypedDict

import torch
from torch import Tensor

from equigrad.labels import IGNORE
from equigrad.losses.inputs import FusedReduction, Reduction, check_choice, check_ignore_index
from equigrad.statistics import ExactModule, is_recomputing


class ReductionOptions(TypedDict):
    """How a function of `functional` combines the samples."""

    reduction: FusedReduction
    normalizer: float | Tensor | None
    ignore_index: int


class CategoryLoss(ExactModule):
    """Base class of all losses of logits (N, C, ...) against labels: common labels, reductions and errors.

    Args:
        reduction: "mean" sums over categories and takes the mean over counted samples; "sum" does not divide; "none"
            returns one value for each sample in the labels' shape, 0 for an ignored one.
        ignore_index: the label of samples that do not count, such as 255 in label maps.
    """

    takes_background = True
    """Whether a sample may be BACKGROUND: a negative of every category. A softmax has no column for it."""

    columns_are_categories = True
    """Whether column j of the logits is that of category j."""

    takes_objectness = False
    """Whether `forward` has the option `objectness`: the last of C + 1 columns is that of `WithObjectness`. Only the
    Triton kernels have it, for class indices."""

    def __init__(self, reduction: Reduction, ignore_index: int = IGNORE) -> None:
        super().__init__()
        check_choice("reduction", reduction, Reduction)
        check_ignore_index(ignore_index)
        self.reduction: Reduction = reduction
        self.ignore_index = ignore_index

    def options(self, normalizer: float | Tensor | None) -> ReductionOptions:
        """Options of the fused pass. With "none" it computes the sum, whose gradient the statistics record."""
        if self.reduction != "none":
            return {"reduction": self.reduction, "normalizer": normalizer, "ignore_index": self.ignore_index}
        if normalizer is not None:
            raise ValueError('normalizer divides a sum; with reduction="none" divide the values yourself')
        return {"reduction": "sum", "normalizer": None, "ignore_index": self.ignore_index}

    def num_counted(self, labels: Tensor) -> float | None:
        """The samples that "mean" divides by; None with another reduction.

        Parts of a batch with different numbers of samples, on ranks or in micro-batches, add up to the mean of the
        whole if each is called with the mean number of all parts as `normalizer`.
        """
        if self.reduction != "mean":
            return None
        if labels.is_floating_point() or labels.dtype == torch.bool:  # a number for each logit: every sample counts
            return labels.numel() // labels.shape[1]
        return int((labels != self.ignore_index).sum())

    def changes_state(self) -> bool:
        """Whether this call moves statistics, counts and random numbers: only in training, and not when it is repeated.

        What `torch.utils.checkpoint` repeats was counted in the first pass, and the gradient of that pass is kept. The
        values of "none" are left to autograd, which would take them from the second pass, with weights that have moved.
        """
        if not (self.training and torch.is_grad_enabled()):
            return False
        if not is_recomputing():
            return True
        if self.reduction == "none":
            raise RuntimeError(
                f'{type(self).__name__} with reduction="none" cannot be inside torch.utils.checkpoint: when it is '
                "repeated there, its weights have moved. Call it outside, on the logits that the checkpoint returns"
            )
        return False

    def extra_repr(self) -> str:
        """Hyper-parameters, for `print(model)`."""
        plain = (str, int, float, type(None))
        shown = {name: value for name, value in vars(self).items() if isinstance(value, plain)}
        return ", ".join(f"{name}={value}" for name, value in shown.items() if name[0] != "_" and name != "training")
