"""What all losses share."""

from equigrad.losses.inputs import REDUCTIONS, check_choice
from equigrad.statistics import ExactModule


class CategoryLoss(ExactModule):
    """A loss of logits (N, C, ...) against labels, with the contract's labels, reduction and errors.

    Args:
        reduction: "mean" sums over categories and takes the mean over counted samples; "sum" does not divide.
    """

    takes_background = True
    """Whether a sample may be BACKGROUND: a negative of every category. A softmax has no place for it."""

    def __init__(self, reduction: str) -> None:
        super().__init__()
        check_choice("reduction", reduction, REDUCTIONS)
        self.reduction = reduction

    def extra_repr(self) -> str:
        """Hyper-parameters, for `print(model)`."""
        plain = (str, int, float, type(None))
        shown = {name: value for name, value in vars(self).items() if isinstance(value, plain)}
        return ", ".join(f"{name}={value}" for name, value in shown.items() if name[0] != "_" and name != "training")
