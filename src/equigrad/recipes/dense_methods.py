"""Methods of one-stage detectors: the classification loss, and whether it learns the overlap of boxes, too."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import nn

import equigrad
from equigrad.data.frequency import Counts
from equigrad.models.detection.one_stage.detector import DenseDetector
from equigrad.recipes.methods import plain, sized
from equigrad.recipes.trained_categories import TrainedCategories


@dataclass(frozen=True)
class DenseMethod:
    """How categories are learnt.

    Args:
        loss: from training images of each category (C,) to the loss.
        with_quality: whether the loss takes the IoU of the positives.
    """

    loss: Callable[[Counts], nn.Module]
    with_quality: bool = False


@dataclass(frozen=True)
class OneStage:
    """A one-stage detector.

    Args:
        build: such as `equigrad.models.detection.one_stage.atss.improved_atss`.
        method: its classification loss.
    """

    build: Callable[..., DenseDetector]
    method: DenseMethod

    @property
    def with_masks(self) -> bool:
        """There are none."""
        return False

    def __call__(self, pyramid: nn.Module, categories: TrainedCategories) -> DenseDetector:
        """The model before its first step."""
        method = self.method
        loss = method.loss(categories.image_counts)
        return self.build(pyramid, len(categories), loss, equigrad.SigmoidScores(), with_quality=method.with_quality)


def efl(focus_scale: float = 8.0, *, focusing: bool = True, weighting: bool = True) -> DenseMethod:
    """EFL; the scale 0 is focal loss. The factors can be switched off one by one."""
    loss = sized(equigrad.EqualizedFocalLoss, focus_scale=focus_scale, focusing=focusing, weighting=weighting)
    return DenseMethod(loss)


def eqfl(focus_scale: float = 8.0) -> DenseMethod:
    """EQFL; the scale 0 is quality focal loss."""
    return DenseMethod(sized(equigrad.EqualizedQualityFocalLoss, focus_scale=focus_scale), with_quality=True)


# With every factor at its base the equalized losses are the plain ones, and watch the gradients for the page.
FL = efl(0.0)
QFL = eqfl(0.0)
BCE = DenseMethod(sized(equigrad.SigmoidEqualizationLoss, reweight_positive=False, reweight_negative=False))
FL_EQL = DenseMethod(sized(equigrad.FocalEqualizationLoss))
# What YOLOX calls its sigmoid loss: binary cross-entropy with the IoU as soft label.
SOFT_BCE = DenseMethod(plain(equigrad.QualityFocalLoss, focus=0.0), with_quality=True)

DenseMethodName = Literal["bce", "fl", "fl_eql", "efl", "qfl", "eqfl"]

DENSE_METHODS: dict[DenseMethodName, DenseMethod] = {
    "bce": BCE,
    "fl": FL,
    "fl_eql": FL_EQL,
    "efl": efl(),
    "qfl": QFL,
    "eqfl": eqfl(),
}
