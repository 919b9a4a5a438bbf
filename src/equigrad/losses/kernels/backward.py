"""The stored gradient, scaled for backward in one launch."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from equigrad.losses.kernels.launch import Launch

BLOCK = 1024


def scale_gradient(gradient: Tensor, upstream: Tensor, divisor: Tensor, out: Tensor) -> Launch:
    """out = gradient * upstream / divisor, in float32 if they are of half precision; `out` may be the gradient.

    Args:
        gradient: dense in memory, of any shape.
        upstream: () floating, d / d loss.
        divisor: () floating, what the loss is divided by.
        out: result, with the gradient's dtype and strides.
    """
    arguments = {
        "gradient": gradient,
        "upstream": upstream,
        "divisor": divisor,
        "out": out,
        "num_entries": gradient.numel(),
        "IS_DOUBLE": gradient.dtype == torch.float64,
        "BLOCK": BLOCK,
    }
    return Launch(scale_kernel, (max(1, triton.cdiv(gradient.numel(), BLOCK)),), arguments)


@triton.jit
def scale_kernel(gradient, upstream, divisor, out, num_entries, IS_DOUBLE: tl.constexpr, BLOCK: tl.constexpr):
    """A block of entries."""
    dtype: tl.constexpr = tl.float64 if IS_DOUBLE else tl.float32
    entries = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = entries < num_entries
    # A loss scale of 65536 is infinite in float16.
    factor = tl.load(upstream).to(dtype) / tl.load(divisor).to(dtype)
    tl.store(out + entries, tl.load(gradient + entries, mask=inside, other=0).to(dtype) * factor, mask=inside)
