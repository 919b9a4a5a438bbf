"""Functions of single entries that the kernels share; stable for any logit."""

import triton
import triton.language as tl


@triton.jit
def log1p(x):
    """log(1 + x) for x >= 0, exact to rounding also where 1 + x is not."""
    total = 1 + x
    rounded = total - 1
    return tl.where(rounded > 0, tl.log(total) * (x / tl.where(rounded > 0, rounded, 1)), x)


@triton.jit
def sigmoid_parts(x):
    """sigmoid(|x|), sigmoid(-|x|) and softplus(-|x|)."""
    decay = tl.exp(-tl.abs(x))
    near = 1 / (1 + decay)
    return near, decay * near, log1p(decay)


@triton.jit
def is_finite(x):
    """Neither infinite nor NaN."""
    return tl.abs(x) < float("inf")


@triton.jit
def by_category(values, columns, is_column, factor: tl.constexpr, dtype: tl.constexpr):
    """The numbers of the categories of a tile, times a constant; the constant itself if there is no vector."""
    constant = tl.full(columns.shape, factor, dtype)
    return constant if values is None else constant * tl.load(values + columns, mask=is_column, other=0).to(dtype)
