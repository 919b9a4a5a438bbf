"""Training on long-tailed data: losses that balance the gradients of the categories, and what they are compared with.

criterion = equigrad.SigmoidEqualizationLoss(num_classes)
loss = criterion(logits, labels)
"""

from typing import TYPE_CHECKING

from equigrad.lazy import lazy_exports

__version__ = "0.1.0.dev0"


if TYPE_CHECKING:
    from equigrad import (
        calibration as calibration,
        decoupling as decoupling,
        integrations as integrations,
        losses as losses,
        models as models,
        sampling as sampling,
    )
    from equigrad.distillation import (
        DistillationLoss as DistillationLoss,
        FrozenTeacher as FrozenTeacher,
    )
    from equigrad.labels import (
        BACKGROUND as BACKGROUND,
        IGNORE as IGNORE,
    )
    from equigrad.losses import (
        BalancedSoftmaxLoss as BalancedSoftmaxLoss,
        BinaryCrossEntropyLoss as BinaryCrossEntropyLoss,
        CategoryLoss as CategoryLoss,
        CrossEntropyLoss as CrossEntropyLoss,
        EffectiveClassMarginLoss as EffectiveClassMarginLoss,
        EqualizationLoss as EqualizationLoss,
        EqualizedFocalLoss as EqualizedFocalLoss,
        EqualizedQualityFocalLoss as EqualizedQualityFocalLoss,
        EqualizedVarifocalLoss as EqualizedVarifocalLoss,
        FederatedLoss as FederatedLoss,
        FocalEqualizationLoss as FocalEqualizationLoss,
        FocalLoss as FocalLoss,
        GradientBlockingLoss as GradientBlockingLoss,
        GroupedSoftmaxLoss as GroupedSoftmaxLoss,
        GroupedSoftmaxScores as GroupedSoftmaxScores,
        LADELoss as LADELoss,
        LDAMLoss as LDAMLoss,
        LogitAdjustmentLoss as LogitAdjustmentLoss,
        QualityFocalLoss as QualityFocalLoss,
        SeesawLoss as SeesawLoss,
        SigmoidEqualizationLoss as SigmoidEqualizationLoss,
        SoftmaxEqualizationLoss as SoftmaxEqualizationLoss,
        VarifocalLoss as VarifocalLoss,
        WithObjectness as WithObjectness,
        effective_number_weights as effective_number_weights,
        mixed_labels as mixed_labels,
    )
    from equigrad.meter import (
        GradientMeter as GradientMeter,
    )
    from equigrad.models.classification.cosine_classifier import (
        CosineClassifier as CosineClassifier,
    )
    from equigrad.models.scores import (
        SigmoidObjectnessScores as SigmoidObjectnessScores,
        SigmoidScores as SigmoidScores,
        SoftmaxObjectnessScores as SoftmaxObjectnessScores,
        SoftmaxScores as SoftmaxScores,
        bias_for_prior as bias_for_prior,
    )
    from equigrad.sampling import (
        ClassBalancedSampler as ClassBalancedSampler,
        RepeatFactorSampler as RepeatFactorSampler,
    )
    from equigrad.statistics import (
        GradientStatistics as GradientStatistics,
        copy_statistics as copy_statistics,
        one_batch as one_batch,
    )
    from equigrad.trained import load as load
else:
    # Imported at first use, so that the command line can answer `--help` without torch.
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
