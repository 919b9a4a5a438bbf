"""Over how many samples a loss is the mean: parts of a batch need the total to add up to the loss of the whole."""

from typing import Protocol, runtime_checkable

from torch import Tensor, nn


@runtime_checkable
class CountsSamples(Protocol):
    """A loss that takes a `normalizer`, and knows what it divides by without one."""

    def num_counted(self, labels: Tensor) -> float | None:
        """Number of samples that the loss is the mean of; None if it is not a mean over samples."""
        ...


def num_counted(loss: nn.Module, labels: Tensor) -> float | None:
    """Number of samples that a loss is the mean of; None if it is not a mean over samples or unknown."""
    return loss.num_counted(labels) if isinstance(loss, CountsSamples) else None
