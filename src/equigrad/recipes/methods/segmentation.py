"""Methods of semantic segmentation: those of classification that look at one pixel at a time."""

from dataclasses import replace
from typing import Literal

from equigrad.recipes.methods.classification import METHODS as CLASSIFICATION_METHODS
from equigrad.tasks.methods import Method

PixelMethodName = Literal["ce", "softmax_eql", "bce", "sigmoid_eql", "balanced_softmax", "logit_adjustment", "seesaw"]

PAPER_METHODS: tuple[PixelMethodName, ...] = ("ce", "softmax_eql", "bce", "sigmoid_eql")
"""Rows of the paper's tables; the others are for comparison."""

# The paper names none for pixels. Here every pixel has one of C categories, so that it is about 1 / C: with the 0.001
# of detectors, where most samples are background, the first steps would only lift the biases again.
_PRIOR = 0.01


def pixel_method(name: PixelMethodName) -> Method:
    """The method of classification, its sigmoids starting at a probability that suits pixels."""
    _, method = CLASSIFICATION_METHODS[name]
    return method if method.bias_prior is None else replace(method, bias_prior=_PRIOR)


def row_of(name: PixelMethodName) -> str:
    """What the paper calls a method."""
    return CLASSIFICATION_METHODS[name][0]
