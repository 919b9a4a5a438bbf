"""How many samples a loss is the mean of, which parts of a batch must know to add up to the mean of the whole."""

from typing import Protocol, runtime_checkable

from torch import Tensor, nn


@runtime_checkable
class CountsSamples(Protocol):
    """A loss that takes a `normalizer` and says what it divides by without one."""

    def num_counted(self, labels: Tensor) -> float | None:
        """The samples that the loss is the mean of; None if it is no such mean."""
        ...


def num_counted(loss: nn.Module, labels: Tensor) -> float | None:
    """The samples that a loss is the mean of; None if it is no such mean, or does not tell."""
    return loss.num_counted(labels) if isinstance(loss, CountsSamples) else None
