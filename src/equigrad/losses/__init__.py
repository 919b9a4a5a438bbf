"""Losses for long-tailed data; `functional` holds the formulas without state."""

from equigrad.labels import BACKGROUND, IGNORE
from equigrad.losses.equalization import (
    EqualizedFocalLoss,
    EqualizedQualityFocalLoss,
    SigmoidEqualizationLoss,
    SoftmaxEqualizationLoss,
)
from equigrad.losses.grouped_softmax import GroupedSoftmaxLoss, GroupedSoftmaxScores
from equigrad.losses.multi_label import (
    BinaryCrossEntropyLoss,
    EffectiveClassMarginLoss,
    FederatedLoss,
    FocalEqualizationLoss,
    FocalLoss,
    GradientBlockingLoss,
    QualityFocalLoss,
)
from equigrad.losses.objectness import WithObjectness
from equigrad.losses.single_label import (
    BalancedSoftmaxLoss,
    CrossEntropyLoss,
    LADELoss,
    LDAMLoss,
    LogitAdjustmentLoss,
    SeesawLoss,
    effective_number_weights,
)

__all__ = [
    "BACKGROUND",
    "IGNORE",
    "BalancedSoftmaxLoss",
    "BinaryCrossEntropyLoss",
    "CrossEntropyLoss",
    "EffectiveClassMarginLoss",
    "EqualizedFocalLoss",
    "EqualizedQualityFocalLoss",
    "FederatedLoss",
    "FocalEqualizationLoss",
    "FocalLoss",
    "GradientBlockingLoss",
    "GroupedSoftmaxLoss",
    "GroupedSoftmaxScores",
    "LADELoss",
    "LDAMLoss",
    "LogitAdjustmentLoss",
    "QualityFocalLoss",
    "SeesawLoss",
    "SigmoidEqualizationLoss",
    "SoftmaxEqualizationLoss",
    "WithObjectness",
    "effective_number_weights",
]
