"""One launch of a kernel, as data: it can be run, counted, or compiled for a device that is not there."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from equigrad.losses.inputs import PerCategory


class Launch(NamedTuple):
    """A kernel with its grid and arguments, all chosen from shapes: nothing is read from the device."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: dict[str, Any]
    num_warps: int = 4
    max_registers: int | None = None  # of a thread; NVIDIA's compiler alone takes a bound

    def options(self, backend: str) -> dict[str, int]:
        """What Triton compiles it with, for "cuda" or "hip"."""
        if self.max_registers is None or backend == "hip":
            return {"num_warps": self.num_warps}
        return {"num_warps": self.num_warps, "maxnreg": self.max_registers}


_collected: list[Launch] | None = None


@contextmanager
def collected() -> Iterator[list[Launch]]:
    """Launches are put into a list and not run: to count them on a device that is not there."""
    global _collected
    launches: list[Launch] = []
    _collected = launches
    try:
        yield launches
    finally:
        _collected = None


def run(*launches: Launch) -> None:
    """Run the launches in their order."""
    if _collected is not None:
        _collected.extend(launches)
        return
    backend = "hip" if torch.version.hip else "cuda"
    for launch in launches:
        device = next(value.device for value in launch.arguments.values() if isinstance(value, Tensor))
        # Triton launches on the current device, which need not be that of the tensors.
        with torch.cuda.device(device if device.type == "cuda" else -1):
            launch.kernel[launch.grid](**launch.arguments, **launch.options(backend))


def vector_and_factor(value: PerCategory | None, num_classes: int) -> tuple[Tensor | None, float]:
    """A number for each category as (C,) times a constant: the vector is None if all categories have the same."""
    if not isinstance(value, Tensor):
        return None, 1.0 if value is None else float(value)
    return value.detach().expand(num_classes).contiguous(), 1.0
