"""Methods of semantic segmentation: those of classification that look at one pixel at a time."""

from dataclasses import replace
from typing import Literal, get_args

from equigrad.recipes.methods import ROWS, Method

PixelMethodName = Literal["ce", "softmax_eql", "bce", "sigmoid_eql", "balanced_softmax", "logit_adjustment", "seesaw"]

PAPER_METHODS: tuple[PixelMethodName, ...] = ("ce", "softmax_eql", "bce", "sigmoid_eql")
"""Rows of the paper's tables; the others are for comparison."""

# The paper names none for pixels. Here every pixel has one of C categories, so that it is about 1 / C: with the 0.001
# of detectors, where most samples are background, the first steps would only lift the biases again.
_BIAS_PRIOR = 0.01


def pixel_method(name: PixelMethodName) -> tuple[str, Method]:
    """What the paper calls a method, and the method for pixels."""
    if name not in get_args(PixelMethodName):
        raise ValueError(f"method must be one of {', '.join(get_args(PixelMethodName))}, got {name!r}")
    label, method = ROWS[name]
    return label, method if method.bias_prior is None else replace(method, bias_prior=_BIAS_PRIOR)
