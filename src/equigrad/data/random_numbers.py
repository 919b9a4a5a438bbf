"""Single random numbers from torch's global generator, which the training loop seeds for every sample."""

from collections.abc import Sequence

import torch


def uniform(low: float, high: float) -> float:
    """A random float, uniform in [low, high)."""
    return float(torch.empty((), dtype=torch.float64).uniform_(low, high))


def integer_below(bound: int) -> int:
    """A random integer in 0 … bound - 1."""
    return int(torch.randint(bound, ()))


def choice(values: Sequence[int]) -> int:
    """One of the values, all equally likely."""
    return values[integer_below(len(values))]


def happens(probability: float) -> bool:
    """True with the given probability; always consumes one random number, whatever the probability."""
    return uniform(0, 1) < probability
