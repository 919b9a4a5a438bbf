"""Losses for long-tailed data; `functional` holds the formulas without state."""

from equigrad.losses.equalization import (
    EqualizedFocalLoss,
    EqualizedQualityFocalLoss,
    SigmoidEqualizationLoss,
    SoftmaxEqualizationLoss,
)
from equigrad.losses.inputs import BACKGROUND, IGNORE
from equigrad.losses.objectness import WithObjectness

__all__ = [
    "BACKGROUND",
    "IGNORE",
    "EqualizedFocalLoss",
    "EqualizedQualityFocalLoss",
    "SigmoidEqualizationLoss",
    "SoftmaxEqualizationLoss",
    "WithObjectness",
]
