"""Random numbers that a checkpoint continues."""

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
        self.num_calls = 0

    def forward(self, shape: tuple[int, ...], device: torch.device) -> Tensor:
        """Numbers in [0, 1), float32."""
        # The CPU generator uses 32 bits of a seed.
        generator = torch.Generator().manual_seed((self.seed * 1_000_003 + self.num_calls) % 2**32)
        self.num_calls += 1
        return torch.rand(shape, generator=generator).to(device)

    def get_extra_state(self) -> Tensor:
        """The number of calls so far, for `state_dict`."""
        # Not a buffer: on a GPU each step would wait to read it.
        return torch.tensor(self.num_calls)

    def set_extra_state(self, state: Tensor) -> None:
        """Continue where a saved loss stopped."""
        self.num_calls = int(state)

    def extra_repr(self) -> str:
        """The seed, for `print(model)`."""
        return f"seed={self.seed}"
