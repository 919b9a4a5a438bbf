"""Gradient-driven training of recognisers on long-tailed data.

criterion = equigrad.SigmoidEqualizationLoss(num_classes)
loss = criterion(logits, labels)
"""

from importlib import import_module
from typing import TYPE_CHECKING

from equigrad.lazy import lazy_exports

__version__ = "0.1.0.dev0"

# Imported at first use, so that the command line can answer `--help` without torch.
_MODULES = ("calibration", "decoupling", "losses", "models", "sampling")
_EXPORTS = {
    "distillation": ["DistillationLoss", "FrozenTeacher"],
    "labels": ["BACKGROUND", "IGNORE"],
    "losses": [
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
    ],
    "models.classification.cosine_classifier": ["CosineClassifier"],
    "models.scores": [
        "SigmoidObjectnessScores",
        "SigmoidScores",
        "SoftmaxObjectnessScores",
        "SoftmaxScores",
        "bias_for_prior",
    ],
    "sampling": ["ClassBalancedSampler", "RepeatFactorSampler"],
    "statistics": ["GradientStatistics", "one_batch"],
}

if TYPE_CHECKING:
    from equigrad import calibration as calibration
    from equigrad import decoupling as decoupling
    from equigrad import losses as losses
    from equigrad import models as models
    from equigrad import sampling as sampling
    from equigrad.distillation import (
        DistillationLoss as DistillationLoss,
    )
    from equigrad.distillation import (
        FrozenTeacher as FrozenTeacher,
    )
    from equigrad.labels import (
        BACKGROUND as BACKGROUND,
    )
    from equigrad.labels import (
        IGNORE as IGNORE,
    )
    from equigrad.losses import (
        BalancedSoftmaxLoss as BalancedSoftmaxLoss,
    )
    from equigrad.losses import (
        BinaryCrossEntropyLoss as BinaryCrossEntropyLoss,
    )
    from equigrad.losses import (
        CrossEntropyLoss as CrossEntropyLoss,
    )
    from equigrad.losses import (
        EffectiveClassMarginLoss as EffectiveClassMarginLoss,
    )
    from equigrad.losses import (
        EqualizedFocalLoss as EqualizedFocalLoss,
    )
    from equigrad.losses import (
        EqualizedQualityFocalLoss as EqualizedQualityFocalLoss,
    )
    from equigrad.losses import (
        FederatedLoss as FederatedLoss,
    )
    from equigrad.losses import (
        FocalEqualizationLoss as FocalEqualizationLoss,
    )
    from equigrad.losses import (
        FocalLoss as FocalLoss,
    )
    from equigrad.losses import (
        GradientBlockingLoss as GradientBlockingLoss,
    )
    from equigrad.losses import (
        GroupedSoftmaxLoss as GroupedSoftmaxLoss,
    )
    from equigrad.losses import (
        GroupedSoftmaxScores as GroupedSoftmaxScores,
    )
    from equigrad.losses import (
        LADELoss as LADELoss,
    )
    from equigrad.losses import (
        LDAMLoss as LDAMLoss,
    )
    from equigrad.losses import (
        LogitAdjustmentLoss as LogitAdjustmentLoss,
    )
    from equigrad.losses import (
        QualityFocalLoss as QualityFocalLoss,
    )
    from equigrad.losses import (
        SeesawLoss as SeesawLoss,
    )
    from equigrad.losses import (
        SigmoidEqualizationLoss as SigmoidEqualizationLoss,
    )
    from equigrad.losses import (
        SoftmaxEqualizationLoss as SoftmaxEqualizationLoss,
    )
    from equigrad.losses import (
        WithObjectness as WithObjectness,
    )
    from equigrad.losses import (
        effective_number_weights as effective_number_weights,
    )
    from equigrad.models.classification.cosine_classifier import (
        CosineClassifier as CosineClassifier,
    )
    from equigrad.models.scores import (
        SigmoidObjectnessScores as SigmoidObjectnessScores,
    )
    from equigrad.models.scores import (
        SigmoidScores as SigmoidScores,
    )
    from equigrad.models.scores import (
        SoftmaxObjectnessScores as SoftmaxObjectnessScores,
    )
    from equigrad.models.scores import (
        SoftmaxScores as SoftmaxScores,
    )
    from equigrad.models.scores import (
        bias_for_prior as bias_for_prior,
    )
    from equigrad.sampling import (
        ClassBalancedSampler as ClassBalancedSampler,
    )
    from equigrad.sampling import (
        RepeatFactorSampler as RepeatFactorSampler,
    )
    from equigrad.statistics import (
        GradientStatistics as GradientStatistics,
    )
    from equigrad.statistics import (
        one_batch as one_batch,
    )
else:
    _read_export, __dir__, __all__ = lazy_exports(__name__, _EXPORTS)
    __all__ = [*__all__, "calibration", "decoupling"]

    def __getattr__(name):
        return import_module(f"{__name__}.{name}") if name in _MODULES else _read_export(name)
