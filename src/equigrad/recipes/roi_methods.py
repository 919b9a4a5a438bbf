"""Methods of two-stage detectors: the loss of proposals, how it is read, and what the classifier needs for it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from torch import nn

import equigrad
from equigrad.models.classification import Scores
from equigrad.models.rcnn import RCNN, faster_rcnn
from equigrad.models.roi_head import RoIClassifier
from equigrad.models.roi_scores import SoftmaxBackgroundScores, TwoWayObjectness, TwoWayObjectnessScores
from equigrad.recipes.trained_categories import TrainedCategories

PRIOR = 0.001
"""Probability that each sigmoid of the paper's detectors starts with."""


@dataclass(frozen=True)
class RoIMethod:
    """How the categories of proposals are learnt and read; `equigrad.models.roi_scores` tells what goes together.

    Args:
        loss: from the categories to the loss.
        scores: from the categories to the scores.
        has_background_column: the last column is background, as in cross-entropy with C + 1 columns.
        divide_by_rois: the loss divides by all RoIs.
        prior: probability each sigmoid starts with; None for softmax losses.
    """

    loss: Callable[[TrainedCategories], nn.Module]
    scores: Callable[[TrainedCategories], Scores]
    has_background_column: bool = False
    divide_by_rois: bool = False
    prior: float | None = None


@dataclass(frozen=True)
class TwoStage:
    """Faster R-CNN, or Mask R-CNN.

    Args:
        method: of the categories.
        with_masks: Mask R-CNN.
        class_agnostic: one box, and one mask, for all categories.
        build: the builder; another than `faster_rcnn` has other sizes.
    """

    method: RoIMethod
    with_masks: bool = False
    class_agnostic: bool = False
    build: Callable[..., RCNN] = faster_rcnn

    def __call__(self, pyramid: nn.Module, categories: TrainedCategories) -> RCNN:
        """The model before its first step."""
        method = self.method
        return self.build(
            pyramid,
            len(categories),
            method.loss(categories),
            method.scores(categories),
            classifier=partial(RoIClassifier, prior=method.prior),
            background_column=len(categories) if method.has_background_column else None,
            divide_by_rois=method.divide_by_rois,
            class_agnostic=self.class_agnostic,
            with_masks=self.with_masks,
        )


@dataclass(frozen=True)
class Always:
    """The same scores or loss settings whatever the categories."""

    make: Callable[..., Any]

    def __call__(self, categories: TrainedCategories) -> Any:
        """Made anew."""
        return self.make()


def _with_objectness(loss_class: Callable[..., Any], **settings: Any) -> Callable[[TrainedCategories], nn.Module]:
    return lambda categories: equigrad.WithObjectness(loss_class(len(categories), **settings))


def sigmoid_eql(**settings: Any) -> RoIMethod:
    """Sigmoid-EQL with an objectness branch; settings are those of `SigmoidEqualizationLoss`."""
    loss = _with_objectness(equigrad.SigmoidEqualizationLoss, **settings)
    return RoIMethod(loss, Always(equigrad.SigmoidObjectnessScores), prior=PRIOR)


def _plain_sigmoid(categories: TrainedCategories) -> nn.Module:
    # With both weights at 1 it is binary cross-entropy, and watches the gradients for the page.
    return equigrad.SigmoidEqualizationLoss(len(categories), reweight_positive=False, reweight_negative=False)


def _seesaw(categories: TrainedCategories) -> nn.Module:
    return TwoWayObjectness(equigrad.WithObjectness(equigrad.SeesawLoss(len(categories))))


def _seesaw_scores() -> Scores:
    return TwoWayObjectnessScores(equigrad.SoftmaxObjectnessScores())


CE = RoIMethod(Always(equigrad.CrossEntropyLoss), Always(SoftmaxBackgroundScores), has_background_column=True)
BCE = RoIMethod(_plain_sigmoid, Always(equigrad.SigmoidScores), prior=PRIOR)
SEESAW = RoIMethod(_seesaw, Always(_seesaw_scores), divide_by_rois=True)
SOFTMAX_EQL = RoIMethod(
    _with_objectness(equigrad.SoftmaxEqualizationLoss), Always(equigrad.SoftmaxObjectnessScores), divide_by_rois=True
)
SIGMOID_EQL = sigmoid_eql()

RoIMethodName = Literal["ce", "bce", "seesaw", "softmax_eql", "sigmoid_eql"]

ROI_METHODS: dict[RoIMethodName, RoIMethod] = {
    "ce": CE,
    "bce": BCE,
    "seesaw": SEESAW,
    "softmax_eql": SOFTMAX_EQL,
    "sigmoid_eql": SIGMOID_EQL,
}
