"""Which implementation computes a loss: `EQUIGRAD_KERNELS`.

    auto      Triton kernels on a GPU, cache-sized blocks on a CPU, the plain device path elsewhere
    triton    the GPU kernels; with TRITON_INTERPRET=1 also on CPU tensors
    torch     the plain device path: ordinary operations on a few large blocks
    blocks    blocks that fit into the cache of a CPU

All give the same numbers to rounding.
"""

import importlib.util
import os
from functools import cache
from typing import Literal, get_args

import torch

Kernels = Literal["triton", "torch", "blocks"]

VARIABLE = "EQUIGRAD_KERNELS"

is_transformed = torch._C._are_functorch_transforms_active
"""Whether a transform of `torch.func` calls; it refuses `requires_grad_`, and to change captured state by `+=`."""


def kernels_for(device: torch.device) -> Kernels:
    """What computes the losses of tensors on a device.

    A compiler makes kernels of its own from plain operations; the tensors of `torch.func` have no memory for Triton.
    """
    if torch.compiler.is_compiling():
        return "torch"
    wanted = os.environ.get(VARIABLE, "auto")
    if wanted == "auto":
        if device.type == "cpu":
            return "blocks"
        return "triton" if device.type == "cuda" and _has_triton() and not is_transformed() else "torch"
    for choice in get_args(Kernels):
        if wanted == choice:
            if choice == "triton":
                _check_triton(device)
            return "torch" if choice == "triton" and is_transformed() else choice
    raise ValueError(f"{VARIABLE} must be one of auto, {', '.join(get_args(Kernels))}, got {wanted!r}")


@cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def _check_triton(device: torch.device) -> None:
    if not _has_triton():
        raise ValueError(f"{VARIABLE}=triton, but Triton is not installed; {VARIABLE}=torch needs nothing but torch")
    if device.type == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        raise ValueError(
            f"{VARIABLE}=triton needs tensors on a GPU; TRITON_INTERPRET=1, set before Triton is imported, runs the "
            "kernels on CPU tensors"
        )
