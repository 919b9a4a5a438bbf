"""Single random numbers from torch's generator, the one that is seeded for every sample that is read."""

from collections.abc import Sequence

import torch


def uniform(low: float, high: float) -> float:
    """A number between the bounds."""
    return float(torch.empty((), dtype=torch.float64).uniform_(low, high))


def below(bound: int) -> int:
    """One of 0 … bound - 1."""
    return int(torch.randint(bound, ()))


def one_of(values: Sequence[int]) -> int:
    """One of the values."""
    return values[below(len(values))]


def happens(probability: float) -> bool:
    """True as often as said; a number is drawn in any case."""
    return uniform(0, 1) < probability
