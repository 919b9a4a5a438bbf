"""A test part of data that comes without one."""

from typing import Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray


class Divisible(Protocol):
    """Images that can be divided."""

    def __len__(self) -> int: ...

    def subset(self, images: NDArray[np.int64], /) -> Self:
        """Some of the images."""
        ...


Data = TypeVar("Data", bound=Divisible)


def held_out(data: Data, share: float) -> tuple[Data, Data]:
    """Training and test part, drawn at random but always alike; neighbours in a film lie on both sides."""
    num_test = round(share * len(data))
    if not 0 < num_test < len(data):
        raise ValueError(f"test_share {share:g} of {len(data)} images leaves none to train or none to test on")
    order = np.random.default_rng(0).permutation(len(data))
    return data.subset(np.sort(order[num_test:])), data.subset(np.sort(order[:num_test]))
