"""Splitting off a test set from data that comes without one."""

from typing import Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


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
        raise ValueError(
            f"test_share {share:g} of {len(data)} images leaves none to train or none to test on; name a test set"
        )
    order = np.random.default_rng(0).permutation(len(data))
    return data.subset(np.sort(order[num_test:])), data.subset(np.sort(order[:num_test]))


def held_out_of_each_category(labels: Tensor, share: float, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Indices of a training set and of a test set with `share` of each category.

    Every category with two samples or more gives at least one and never all, so that the tail is tested too; a category
    with one sample keeps it for training.

    Args:
        labels: (N,) from 0.
        share: between 0 and 1.
        seed: same seed, same split.
    """
    if not 0 < share < 1:
        raise ValueError(f"share must be between 0 and 1, got {share}")
    # Ranks of the samples within their category, in a random order.
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    by_category = order[labels[order].argsort(stable=True)]
    counts = torch.bincount(labels)
    rank = torch.arange(len(labels)) - (counts.cumsum(0) - counts).repeat_interleave(counts)
    num_test = torch.minimum((share * counts).round().long().clamp(min=1), (counts - 1).clamp(min=0))
    is_test = rank < num_test.repeat_interleave(counts)
    return by_category[~is_test], by_category[is_test]
