"""Random-looking numbers that can be computed for any position of a stream without those before it."""

import torch
from torch import Tensor


def scramble(bits: Tensor, counter: Tensor) -> Tensor:
    """Random-looking int64 for each (bits, counter): the output function of SplitMix64 (Steele et al. 2014).

    Shuffling by such keys gives any cycle of an endless stream without replaying the cycles before it.
    """
    bits = bits + (counter + 1) * (0x9E3779B97F4A7C15 - 2**64)  # int64 arithmetic wraps round, as intended
    bits = (bits ^ _shift_right(bits, 30)) * (0xBF58476D1CE4E5B9 - 2**64)
    bits = (bits ^ _shift_right(bits, 27)) * (0x94D049BB133111EB - 2**64)
    return bits ^ _shift_right(bits, 31)


def _shift_right(bits: Tensor, count: int) -> Tensor:
    # The shift of a signed tensor copies the sign bit; this one fills with zeros.
    return torch.bitwise_and(bits >> count, (1 << (64 - count)) - 1)
