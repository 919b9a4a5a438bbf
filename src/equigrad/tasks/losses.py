"""Losses as settings: each dataclass holds the hyper-parameters of one loss and builds it for a training set.

The defaults are those of the losses themselves, which explain the fields too.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from torch import nn

import equigrad
from equigrad.data.frequency import Counts
from equigrad.losses.single_label import BackgroundCrossEntropyLoss
from equigrad.models.detection.two_stage.roi_scores import TwoWayObjectness

MappingName = Literal["sigmoid", "linear", "square", "sqrt"]


class CategoryCounts(NamedTuple):
    """How often each of C categories occurs in the training set; (C,) each."""

    images: Counts
    instances: Counts  # objects, or pixels; in classification the same as images

    @property
    def num_classes(self) -> int:
        """C, the number of categories."""
        return len(self.images)


@dataclass(frozen=True)
class CrossEntropy:
    """Softmax cross-entropy without statistics; in a detector its last column is background."""

    def build(self, counts: CategoryCounts) -> nn.Module:
        """Build the loss for a training set with these counts."""
        return equigrad.CrossEntropyLoss()


@dataclass(frozen=True)
class BackgroundCrossEntropy:
    """Softmax cross-entropy of a two-stage detector, whose last column is background, with statistics."""

    def build(self, counts: CategoryCounts) -> nn.Module:
        """Build the loss for a training set with these counts."""
        return BackgroundCrossEntropyLoss(counts.num_classes)


@dataclass(frozen=True)
class AlignedCrossEntropy:
    """Cross-entropy with DisAlign's category weights, as a weighted mean.

    Args:
        power: rho; 1.2 is for ImageNet-LT, the only one published for images.
    """

    power: float = 1.2

    def build(self, counts: CategoryCounts) -> nn.Module:
        """Build the loss for a training set with these counts."""
        weights = equigrad.decoupling.alignment_weights(counts.images.tolist(), self.power)
        return equigrad.CrossEntropyLoss(weight=weights, weighted_mean=True)


@dataclass(frozen=True)
class SoftmaxEql:
    """Softmax-EQL (Sec. 4.2).

    Args:
        prior_power: pi, the power of the gradient in the margin; 0 is cross-entropy with statistics.
        prior_floor: the least gradient in the margin.
        indicator: which gradient sum sets the margin, or their ratio.
        half_life: number of updates after which a gradient counts half; None never forgets.
        label_smoothing: share of a label that is spread over all categories.
    """

    prior_power: float = 1.0
    prior_floor: float = 1e-4
    indicator: Literal["positive", "negative", "ratio"] = "positive"
    half_life: float | None = None
    label_smoothing: float = 0.0

    def build(self, counts: CategoryCounts) -> nn.Module:
        """Build the loss for a training set with these counts."""
        return equigrad.SoftmaxEqualizationLoss(counts.num_classes, **vars(self))


@dataclass(frozen=True)
class SigmoidEql:
    """Sigmoid-EQL (Sec. 4.1).

    Args:
        positive_boost: alpha, the largest extra weight of a positive sample.
        mapping: f, from gradient ratio to negative weight.
        steepness: gamma of the sigmoid mapping.
        midpoint: mu of the sigmoid mapping.
        reweight_positive: False leaves positive samples at weight 1.
        reweight_negative: False leaves negative samples at weight 1; with both False it is BCE with statistics.
        half_life: number of updates after which a gradient counts half; None never forgets.
    """

    positive_boost: float = 4.0
    mapping: MappingName = "sigmoid"
    steepness: float = 12.0
    midpoint: float = 0.8
    reweight_positive: bool = True
    reweight_negative: bool = True
    half_life: float | None = None

    def build(self, counts: CategoryCounts) -> nn.Module:
        """Build the loss for a training set with these counts."""
        return equigrad.SigmoidEqualizationLoss(counts.num_classes, **vars(self))


@dataclass(frozen=True)
class Efl:
    """Equalized focal loss (Sec. 4.3).

    Args:
        base_focus: gamma_b, the focus of a balanced category.
        focus_scale: s, the largest extra focus; 0 is focal loss with statistics.
        positive_balance: alpha_t; None switches it off.
        focusing: whether rare categories get an extra focus.
        weighting: whether rare categories get a larger weight.
        half_life: number of updates after which a gradient counts half; None never forgets.
    """

    base_focus: float = 2.0
    focus_scale: float = 8.0
    positive_balance: float | None = 0.25
    focusing: bool = True
    weighting: bool = True
    half_life: float | None = None

    def build(self, counts: CategoryCounts) -> nn.Module:
        """Build the loss for a training set with these counts."""
        return equigrad.EqualizedFocalLoss(counts.num_classes, **vars(self))


@dataclass(frozen=True)
class Eqfl:
    """Equalized quality focal loss (Sec. 4.3).

    Args:
        base_focus: gamma_b, the focus of a balanced category.
        focus_scale: s, the largest extra focus; 0 is quality focal loss with statistics.
        half_life: number of updates after which a gradient counts half; None never forgets.
    """

    base_focus: float = 2.0
    focus_scale: float = 8.0
    half_life: float | None = None

    def build(self, counts: CategoryCounts) -> nn.Module:
        """Build the loss for a training set with these counts."""
        return equigrad.EqualizedQualityFocalLoss(counts.num_classes, **vars(self))


@dataclass(frozen=True)
class QualityFocal:
    """Quality focal loss without statistics.

    Args:
        focus: gamma; 0 is binary cross-entropy with the quality as soft label.
    """

    focus: float = 2.0

    def build(self, counts: CategoryCounts) -> nn.Module:
        """Build the loss for a training set with these counts."""
        return equigrad.QualityFocalLoss(focus=self.focus)


@dataclass(frozen=True)
class Evfl:
    """Equalized varifocal loss: a positive is weighted by its quality, a negative by a power of its probability.

    Args:
        base_focus: gamma_b, the focus of a balanced category.
        focus_scale: s, the largest extra focus; 0 is varifocal loss with statistics.
        negative_balance: alpha, the weight of negatives.
        constant_weight: True does not differentiate the weight of negatives, as in RT-DETR.
        quality_weight: whether positives are weighted by their quality, or by 1.
        half_life: number of updates after which a gradient counts half; None never forgets.
    """

    base_focus: float = 2.0
    focus_scale: float = 8.0
    negative_balance: float = 0.75
    constant_weight: bool = False
    quality_weight: bool = True
    half_life: float | None = None

    def build(self, counts: CategoryCounts) -> nn.Module:
        """Build the loss for a training set with these counts."""
        return equigrad.EqualizedVarifocalLoss(counts.num_classes, **vars(self))


@dataclass(frozen=True)
class FocalEql:
    """FL + EQL: Sigmoid-EQL's weights on the focal loss.

    Args:
        focus: gamma of the focal loss.
        positive_balance: alpha_t; None switches it off.
        positive_boost: alpha, the largest extra weight of a positive sample.
        mapping: f, from gradient ratio to negative weight.
        steepness: gamma of the sigmoid mapping.
        midpoint: mu of the sigmoid mapping.
        reweight_positive: False leaves positive samples at weight 1.
        reweight_negative: False leaves negative samples at weight 1.
        half_life: number of updates after which a gradient counts half; None never forgets.
    """

    focus: float = 2.0
    positive_balance: float | None = 0.25
    positive_boost: float = 4.0
    mapping: MappingName = "sigmoid"
    steepness: float = 12.0
    midpoint: float = 0.8
    reweight_positive: bool = True
    reweight_negative: bool = True
    half_life: float | None = None

    def build(self, counts: CategoryCounts) -> nn.Module:
        """Build the loss for a training set with these counts."""
        return equigrad.FocalEqualizationLoss(counts.num_classes, **vars(self))


@dataclass(frozen=True)
class GradientBlocking:
    """Grad-Blocking, the first equalization loss: rare categories get no negative gradient from other categories.

    Args:
        threshold: categories with a smaller count are rare.
        count_by: whether images or instances are counted.
    """

    threshold: float
    count_by: Literal["images", "instances"] = "images"

    def build(self, counts: CategoryCounts) -> nn.Module:
        """Build the loss for a training set with these counts."""
        frequency = counts.images if self.count_by == "images" else counts.instances
        return equigrad.GradientBlockingLoss(frequency.tolist(), threshold=self.threshold)


@dataclass(frozen=True)
class BalancedSoftmax:
    """Balanced Softmax, which needs the training counts."""

    def build(self, counts: CategoryCounts) -> nn.Module:
        """Build the loss for a training set with these counts."""
        return equigrad.BalancedSoftmaxLoss(counts.images.tolist())


@dataclass(frozen=True)
class LogitAdjustment:
    """Logit adjustment, which needs the training counts.

    Args:
        strength: tau, the factor of the log prior.
    """

    strength: float = 1.0

    def build(self, counts: CategoryCounts) -> nn.Module:
        """Build the loss for a training set with these counts."""
        return equigrad.LogitAdjustmentLoss(counts.images.tolist(), strength=self.strength)


@dataclass(frozen=True)
class Lade:
    """LADE: Balanced Softmax with a regulariser.

    Args:
        weight: weight of the regulariser.
        penalty: lambda, the weight of its squared term.
    """

    weight: float = 0.1
    penalty: float = 0.1

    def build(self, counts: CategoryCounts) -> nn.Module:
        """Build the loss for a training set with these counts."""
        return equigrad.LADELoss(counts.images.tolist(), weight=self.weight, penalty=self.penalty)


@dataclass(frozen=True)
class Seesaw:
    """Seesaw loss; counts are gathered during training.

    Args:
        mitigation: p, the exponent of the count ratio.
        compensation: q, the exponent of the score ratio.
    """

    mitigation: float = 0.8
    compensation: float = 2.0

    def build(self, counts: CategoryCounts) -> nn.Module:
        """Build the loss for a training set with these counts."""
        return equigrad.SeesawLoss(counts.num_classes, **vars(self))


@dataclass(frozen=True)
class GroupedSoftmax:
    """BAGS: a softmax for each group of categories of similar instance count.

    Args:
        others_ratio: samples of other groups per sample of a group.
    """

    others_ratio: float = 8.0

    def build(self, counts: CategoryCounts) -> nn.Module:
        """Build the loss for a training set with these counts."""
        return equigrad.GroupedSoftmaxLoss(counts.instances.tolist(), others_ratio=self.others_ratio)


@dataclass(frozen=True)
class Distillation:
    """DIVE: a balanced loss that also learns from the run in `init` as its teacher.

    The defaults were published for CIFAR-100-LT. For the paper's benchmarks no values are public, so these are ours.

    Args:
        base: the loss computed from the labels.
        weight: weight of the teacher.
        temperature: temperature of both softmaxes.
        power: power of the teacher's probabilities.
    """

    base: BalancedSoftmax | SoftmaxEql = BalancedSoftmax()
    weight: float = 0.5
    temperature: float = 3.0
    power: float = 0.5

    def build(self, counts: CategoryCounts) -> nn.Module:
        """Build the loss for a training set with these counts."""
        base: Any = self.base.build(counts)
        return equigrad.DistillationLoss(base, weight=self.weight, temperature=self.temperature, power=self.power)


@dataclass(frozen=True)
class WithObjectness:
    """A loss of categories with an objectness branch: one more column, positive on every object.

    Args:
        loss: loss of the categories.
        two_way: compute objectness as a softmax of two columns, as published with Seesaw, instead of a sigmoid.
    """

    loss: SigmoidEql | SoftmaxEql | Seesaw
    two_way: bool = False

    def build(self, counts: CategoryCounts) -> nn.Module:
        """Build the loss for a training set with these counts."""
        inner: Any = self.loss.build(counts)
        loss = equigrad.WithObjectness(inner)
        return TwoWayObjectness(loss) if self.two_way else loss


ClassifierLoss = (
    CrossEntropy
    | AlignedCrossEntropy
    | SoftmaxEql
    | SigmoidEql
    | Efl
    | FocalEql
    | BalancedSoftmax
    | LogitAdjustment
    | Lade
    | Seesaw
    | Distillation
)
"""Losses of images and of pixels."""

DenseLoss = SigmoidEql | Efl | Eqfl | Evfl | QualityFocal | FocalEql
"""Losses of one-stage detectors."""

RoILoss = BackgroundCrossEntropy | CrossEntropy | SigmoidEql | GradientBlocking | GroupedSoftmax | WithObjectness
"""Losses of two-stage detectors."""
