"""Gradient-driven training of recognisers on long-tailed data.

criterion = equigrad.SigmoidEqualizationLoss(num_classes)
loss = criterion(logits, labels)
"""

from equigrad.losses import (
    BACKGROUND,
    IGNORE,
    EqualizedFocalLoss,
    EqualizedQualityFocalLoss,
    SigmoidEqualizationLoss,
    SoftmaxEqualizationLoss,
    WithObjectness,
)
from equigrad.models.scores import (
    SigmoidObjectnessScores,
    SigmoidScores,
    SoftmaxObjectnessScores,
    SoftmaxScores,
    bias_for_prior,
)
from equigrad.statistics import GradientStatistics

__version__ = "0.1.0.dev0"

__all__ = [
    "BACKGROUND",
    "IGNORE",
    "EqualizedFocalLoss",
    "EqualizedQualityFocalLoss",
    "GradientStatistics",
    "SigmoidEqualizationLoss",
    "SigmoidObjectnessScores",
    "SigmoidScores",
    "SoftmaxEqualizationLoss",
    "SoftmaxObjectnessScores",
    "SoftmaxScores",
    "WithObjectness",
    "bias_for_prior",
]
