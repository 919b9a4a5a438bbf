"""Weights of the categories from the gradient statistics, in one launch: what the losses' `category_weights` compute.

All take the accumulated sums (C,), float64, and give vectors (C,), float64. A category without negative gradient yet
counts as balanced.
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from equigrad.losses.kernels.arithmetic import is_finite
from equigrad.losses.kernels.launch import Launch, run
from equigrad.losses.mappings import MappingName

BLOCK = 256


class Weights(NamedTuple):
    """A launch that is set up, and the memory of its vectors."""

    launch: Launch
    vectors: tuple[Tensor, ...]

    def run(self) -> tuple[Tensor, ...]:
        """Launch it."""
        run(self.launch)
        return self.vectors


def sigmoid_weights(
    positive: Tensor,
    negative: Tensor,
    *,
    positive_boost: float,
    mapping: MappingName,
    steepness: float,
    midpoint: float,
) -> Weights:
    """Sigmoid-EQL: q_j = 1 + alpha (1 - r_j) and r_j = f(G_j). A mapping of the user's own has no kernel."""
    options = {"BOOST": positive_boost, "MAPPING": mapping, "STEEPNESS": steepness, "MIDPOINT": midpoint}
    return _weights(sigmoid_weights_kernel, positive, negative, 2, options)


def focal_weights(positive: Tensor, negative: Tensor, *, base_focus: float, focus_scale: float) -> Weights:
    """EFL and EQFL: gamma^j = gamma_b + s (1 - G_j) and w^j = gamma^j / gamma_b."""
    return _weights(focal_weights_kernel, positive, negative, 2, {"BASE": base_focus, "FOCUS_SCALE": focus_scale})


def margin(prior: Tensor, negative: Tensor | None = None, *, prior_power: float, prior_floor: float) -> Weights:
    """Softmax-EQL: pi log max(G, floor). G is `prior`, or its ratio to `negative` if that is given."""
    return _weights(margin_kernel, prior, negative, 1, {"POWER": prior_power, "FLOOR": prior_floor})


def _weights(
    kernel: Any, positive: Tensor, negative: Tensor | None, num_vectors: int, options: dict[str, Any]
) -> Weights:
    num_classes = positive.numel()
    vectors = positive.new_empty(num_vectors, num_classes)
    arguments = {
        "positive": positive,
        "negative": negative,
        "vectors": vectors,
        "num_categories": num_classes,
        "BLOCK": BLOCK,
        **options,
    }
    return Weights(Launch(kernel, (triton.cdiv(num_classes, BLOCK),), arguments), vectors.unbind())


@triton.jit
def ratios(positive, negative, columns, is_column):
    """G_j, and 1 where there is no negative gradient yet; and where that is so."""
    own = tl.load(positive + columns, mask=is_column, other=1)
    others = tl.load(negative + columns, mask=is_column, other=1)
    ratio = own / tl.where(others > 0, others, 1)
    is_known = (others > 0) & is_finite(ratio)
    return tl.where(is_known, ratio, 1.0), is_known


@triton.jit
def sigmoid_weights_kernel(
    positive,
    negative,
    vectors,
    num_categories,
    BOOST: tl.constexpr,
    MAPPING: tl.constexpr,
    STEEPNESS: tl.constexpr,
    MIDPOINT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """q_j and r_j of a block of categories."""
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_column = columns < num_categories
    ratio, is_known = ratios(positive, negative, columns, is_column)
    if MAPPING == "sigmoid":
        weight = 1 / (1 + tl.exp(-(ratio - MIDPOINT) * STEEPNESS))
    elif MAPPING == "square":
        weight = ratio * ratio
    elif MAPPING == "sqrt":
        weight = tl.sqrt(ratio)
    else:
        tl.static_assert(MAPPING == "linear")
        weight = ratio
    weight = tl.where(is_known, tl.minimum(tl.maximum(weight, 0), 1), 1.0)
    tl.store(vectors + columns, 1 + (1 - weight) * BOOST, mask=is_column)
    tl.store(vectors + num_categories + columns, weight, mask=is_column)


@triton.jit
def focal_weights_kernel(
    positive,
    negative,
    vectors,
    num_categories,
    BASE: tl.constexpr,
    FOCUS_SCALE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """gamma^j and w^j of a block of categories."""
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_column = columns < num_categories
    ratio, _ = ratios(positive, negative, columns, is_column)
    focus = (1 - tl.minimum(tl.maximum(ratio, 0), 1)) * FOCUS_SCALE + BASE
    tl.store(vectors + columns, focus, mask=is_column)
    tl.store(vectors + num_categories + columns, focus / BASE, mask=is_column)


@triton.jit
def margin_kernel(
    positive,
    negative,
    vectors,
    num_categories,
    POWER: tl.constexpr,
    FLOOR: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The margins of a block of categories."""
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_column = columns < num_categories
    if negative is None:
        prior = tl.load(positive + columns, mask=is_column, other=1)
    else:
        prior, _ = ratios(positive, negative, columns, is_column)
    tl.store(vectors + columns, tl.log(tl.maximum(prior, FLOOR)) * POWER, mask=is_column)
