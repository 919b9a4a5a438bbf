"""Gradient-driven training of recognisers on long-tailed data.

criterion = equigrad.SigmoidEqualizationLoss(num_classes)
loss = criterion(logits, labels)
"""

from equigrad import calibration, decoupling
from equigrad.distillation import DistillationLoss, FrozenTeacher
from equigrad.losses import (
    BACKGROUND,
    IGNORE,
    BalancedSoftmaxLoss,
    BinaryCrossEntropyLoss,
    CategoryLoss,
    CrossEntropyLoss,
    EffectiveClassMarginLoss,
    EqualizationLoss,
    EqualizedFocalLoss,
    EqualizedQualityFocalLoss,
    FederatedLoss,
    FocalEqualizationLoss,
    FocalLoss,
    GradientBlockingLoss,
    GroupedSoftmaxLoss,
    GroupedSoftmaxScores,
    LADELoss,
    LDAMLoss,
    LogitAdjustmentLoss,
    QualityFocalLoss,
    SeesawLoss,
    SigmoidEqualizationLoss,
    SoftmaxEqualizationLoss,
    WithObjectness,
    effective_number_weights,
)
from equigrad.models.classification.cosine_classifier import CosineClassifier
from equigrad.models.scores import (
    SigmoidObjectnessScores,
    SigmoidScores,
    SoftmaxObjectnessScores,
    SoftmaxScores,
    bias_for_prior,
)
from equigrad.sampling import ClassBalancedSampler, RepeatFactorSampler
from equigrad.statistics import GradientStatistics, one_batch

__version__ = "0.1.0.dev0"

__all__ = [
    "BACKGROUND",
    "IGNORE",
    "BalancedSoftmaxLoss",
    "BinaryCrossEntropyLoss",
    "CategoryLoss",
    "ClassBalancedSampler",
    "CosineClassifier",
    "CrossEntropyLoss",
    "DistillationLoss",
    "EffectiveClassMarginLoss",
    "EqualizationLoss",
    "EqualizedFocalLoss",
    "EqualizedQualityFocalLoss",
    "FederatedLoss",
    "FocalEqualizationLoss",
    "FocalLoss",
    "FrozenTeacher",
    "GradientBlockingLoss",
    "GradientStatistics",
    "GroupedSoftmaxLoss",
    "GroupedSoftmaxScores",
    "LADELoss",
    "LDAMLoss",
    "LogitAdjustmentLoss",
    "QualityFocalLoss",
    "RepeatFactorSampler",
    "SeesawLoss",
    "SigmoidEqualizationLoss",
    "SigmoidObjectnessScores",
    "SigmoidScores",
    "SoftmaxEqualizationLoss",
    "SoftmaxObjectnessScores",
    "SoftmaxScores",
    "WithObjectness",
    "bias_for_prior",
    "calibration",
    "decoupling",
    "effective_number_weights",
    "one_batch",
]
