"""Splitting off a test set from data that comes without one."""

from typing import Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray


class Divisible(Protocol):
    """Data with a length of which a subset can be taken, such as `DetectionData` or `ImageList`."""

    def __len__(self) -> int: ...

    def subset(self, images: NDArray[np.int64], /) -> Self:
        """The images with these indices."""
        ...


Data = TypeVar("Data", bound=Divisible)


def held_out(data: Data, share: float) -> tuple[Data, Data]:
    """Split data at random into a training set and a test set with `share` of the images.

    The split is the same each time. Images are drawn one by one, so neighbouring frames of a video can end up on
    different sides: the metrics are then too good.
    """
    num_test = round(share * len(data))
    if not 0 < num_test < len(data):
        raise ValueError(f"test_share {share:g} of {len(data)} images leaves none to train or none to test on")
    order = np.random.default_rng(0).permutation(len(data))
    return data.subset(np.sort(order[num_test:])), data.subset(np.sort(order[:num_test]))
