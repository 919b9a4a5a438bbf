"""Losses for long-tailed data: the modules users import.

`reference` holds the plain formula of each, `functional` the fused forms without state.
"""

from equigrad.labels import BACKGROUND, IGNORE
from equigrad.losses.category_loss import CategoryLoss
from equigrad.losses.equalization import (
    EqualizationLoss,
    EqualizedFocalLoss,
    EqualizedQualityFocalLoss,
    Indicator,
    SigmoidEqualizationLoss,
    SoftmaxEqualizationLoss,
)
from equigrad.losses.grouped_softmax import GroupedSoftmaxLoss, GroupedSoftmaxScores
from equigrad.losses.inputs import Reduction
from equigrad.losses.mappings import Mapping, MappingName
from equigrad.losses.mixed_labels import mixed_labels
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
from equigrad.losses.varifocal import EqualizedVarifocalLoss, VarifocalLoss

__all__ = [
    "BACKGROUND",
    "IGNORE",
    "BalancedSoftmaxLoss",
    "BinaryCrossEntropyLoss",
    "CategoryLoss",
    "CrossEntropyLoss",
    "EffectiveClassMarginLoss",
    "EqualizationLoss",
    "EqualizedFocalLoss",
    "EqualizedQualityFocalLoss",
    "EqualizedVarifocalLoss",
    "FederatedLoss",
    "FocalEqualizationLoss",
    "FocalLoss",
    "GradientBlockingLoss",
    "GroupedSoftmaxLoss",
    "GroupedSoftmaxScores",
    "Indicator",
    "LADELoss",
    "LDAMLoss",
    "LogitAdjustmentLoss",
    "Mapping",
    "MappingName",
    "QualityFocalLoss",
    "Reduction",
    "SeesawLoss",
    "SigmoidEqualizationLoss",
    "SoftmaxEqualizationLoss",
    "VarifocalLoss",
    "WithObjectness",
    "effective_number_weights",
    "mixed_labels",
]
