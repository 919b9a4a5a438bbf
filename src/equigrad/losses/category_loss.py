"""The base class of all losses: labels, reduction, errors."""

from typing import TypedDict

from torch import Tensor

from equigrad.labels import IGNORE
from equigrad.losses.inputs import FusedReduction, Reduction, check_choice, check_ignore_index
from equigrad.statistics import ExactModule


class ReductionOptions(TypedDict):
    """How a function of `functional` combines the samples."""

    reduction: FusedReduction
    normalizer: float | Tensor | None
    ignore_index: int


class CategoryLoss(ExactModule):
    """The base of every loss of logits (N, C, ...) against labels, with the contract's labels, reduction and errors.

    Args:
        reduction: "mean" sums over categories and takes the mean over counted samples; "sum" does not divide; "none"
            returns one value for each sample in the labels' shape, 0 for an ignored one.
        ignore_index: the label of samples that do not count, such as 255 in label maps.
    """

    takes_background = True
    """Whether a sample may be BACKGROUND: a negative of every category. A softmax has no column for it."""

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

    def extra_repr(self) -> str:
        """Hyper-parameters, for `print(model)`."""
        plain = (str, int, float, type(None))
        shown = {name: value for name, value in vars(self).items() if isinstance(value, plain)}
        return ", ".join(f"{name}={value}" for name, value in shown.items() if name[0] != "_" and name != "training")
