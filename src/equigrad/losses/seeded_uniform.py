"""Random numbers that a checkpoint continues."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class SeededUniform(nn.Module):
    """Uniform random numbers; the k-th call depends on the seed and on k alone.

    Two runs, a run resumed from a checkpoint, a CPU and a GPU, and all ranks of a job get the same numbers. Random
    numbers drawn elsewhere do not change these, nor do these change others.

    Args:
        seed: any int; two losses with the same seed get the same numbers.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise TypeError(f"seed must be an int, got {type(seed).__name__}")
        self.seed = seed
        # A tensor, so that a compiled step can count; no buffer, because on a GPU each step would wait to read it.
        self.num_calls = torch.zeros((), dtype=torch.int64, device="cpu")

    def forward(self, shape: tuple[int, ...], device: torch.device) -> Tensor:
        """Numbers in [0, 1), float32."""
        if torch.compiler.is_compiling():
            numbers: Tensor = _next_numbers(self.num_calls, self.seed, shape)
            return numbers.to(device)
        # The CPU generator uses 32 bits of a seed.
        generator = torch.Generator().manual_seed((self.seed * 1_000_003 + int(self.num_calls)) % 2**32)
        torch.add(self.num_calls, 1, out=self.num_calls)  # `torch.func` would refuse `+=`
        # From pinned memory the copy is asynchronous: the host does not wait for a GPU.
        numbers = torch.rand(shape, generator=generator, pin_memory=device.type == "cuda")
        return numbers.to(device, non_blocking=True)

    @contextmanager
    def refunded_on_error(self) -> Iterator[None]:
        """If an exception leaves the block, the calls inside do not count: a refused batch changes nothing."""
        before = None if torch.compiler.is_compiling() else self.num_calls.clone()
        try:
            yield
        except Exception:
            if before is not None:
                self.num_calls = before
            raise

    def get_extra_state(self) -> Tensor:
        """The number of calls so far, for `state_dict`."""
        return self.num_calls.clone()

    def set_extra_state(self, state: Tensor) -> None:
        """Continue where a saved loss stopped."""
        self.num_calls.copy_(state)

    def extra_repr(self) -> str:
        """The seed, for `print(model)`."""
        return f"seed={self.seed}"


@torch.library.custom_op("equigrad::next_numbers", mutates_args=("num_calls",))
def _next_numbers(num_calls: Tensor, seed: int, shape: Sequence[int]) -> Tensor:
    """`SeededUniform.forward` as an operator, which a compiler neither looks into nor repeats."""
    uniform = SeededUniform(seed)
    uniform.num_calls = num_calls
    return uniform.forward(tuple(shape), torch.device("cpu"))


@_next_numbers.register_fake
def _(num_calls: Tensor, seed: int, shape: Sequence[int]) -> Tensor:
    return torch.empty(shape)
