"""Methods of two-stage detectors: the loss of proposals, how it is read, and what the classifier needs for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, cast

from torch import Tensor, nn

import equigrad
from equigrad.calibration import NorCalScores
from equigrad.decoupling import learn_scales, retrain_classifier
from equigrad.models.detection.two_stage.rcnn import RCNN, faster_rcnn
from equigrad.models.detection.two_stage.roi_head import MakeClassifier, RoIClassifier
from equigrad.models.detection.two_stage.roi_scores import (
    SoftmaxBackgroundScores,
    TwoWayObjectness,
    TwoWayObjectnessScores,
)
from equigrad.models.detection.two_stage.second_stages import CLASSIFIER, load_representation
from equigrad.models.scores import Scores
from equigrad.recipes.trained_categories import TrainedCategories

PRIOR = 0.001
"""Probability that each sigmoid of the paper's detectors starts with."""


@dataclass(frozen=True)
class RoIMethod:
    """How the categories of proposals are learnt and read; `roi_scores` tells what goes together.

    Args:
        loss: from the categories to the loss.
        scores: from the categories to the scores.
        classifier: makes the layer before them.
        bias_prior: probability that each sigmoid of a linear classifier starts with; None starts the bias at 0.
        has_background_column: the last column is background, as in cross-entropy with C + 1 columns.
        divide_by_rois: the loss divides by all RoIs.
    """

    loss: Callable[[TrainedCategories], nn.Module]
    scores: Callable[[TrainedCategories], Scores]
    classifier: MakeClassifier = RoIClassifier
    bias_prior: float | None = None
    has_background_column: bool = False
    divide_by_rois: bool = False


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
        start = {} if method.bias_prior is None else {"prior": method.bias_prior}
        return self.build(
            pyramid,
            len(categories),
            method.loss(categories),
            method.scores(categories),
            classifier=partial(method.classifier, **start),
            background_column=len(categories) if method.has_background_column else None,
            divide_by_rois=method.divide_by_rois,
            class_agnostic=self.class_agnostic,
            with_masks=self.with_masks,
        )


@dataclass(frozen=True)
class NewClassifier:
    """A second stage with a new classifier, of whatever loss, on the representation of the first: cRT and BAGS."""

    def load(self, model: nn.Module, weights: Mapping[str, Tensor]) -> None:
        """Take over all but the classifier."""
        load_representation(model, weights)

    def change(self, model: nn.Module) -> None:
        """Freeze all but the classifier, which starts anew."""
        retrain_classifier(model, CLASSIFIER)


@dataclass(frozen=True)
class NewScales:
    """A second stage that keeps the classifier and learns a scale for each category: LWS."""

    def load(self, model: nn.Module, weights: Mapping[str, Tensor]) -> None:
        """Take over everything; the classifier means something for the loss alone that it was trained with."""
        for name in sorted(weights.keys() ^ model.state_dict().keys()):
            lacking = "this recipe" if name in weights else "the first stage"
            raise ValueError(f"the classifier is kept, so both stages need the same loss: {lacking} has no {name}")
        model.load_state_dict(weights)

    def change(self, model: nn.Module) -> None:
        """Freeze all but the scales; as published for detectors, the bias is not scaled."""
        num_classes = cast(RCNN, model).roi_heads.num_classes
        learn_scales(model, CLASSIFIER, scale_bias=False, num_classes=num_classes)


@dataclass(frozen=True)
class Always:
    """The same loss or scores whatever the categories."""

    make: Callable[..., Any]

    def __call__(self, categories: TrainedCategories) -> Any:
        """Made anew."""
        return self.make()


@dataclass(frozen=True)
class NorCal:
    """Scores of a softmax detector, calibrated with the training images of each category.

    Args:
        power: gamma. The published code leaves it to be tuned for each model; 0 changes nothing.
    """

    power: float = 0.6

    def __call__(self, categories: TrainedCategories) -> Scores:
        """For these counts."""
        return NorCalScores(categories.image_counts.tolist(), power=self.power)


def sigmoid_eql(**settings: Any) -> RoIMethod:
    """Sigmoid-EQL with an objectness branch; settings are those of `SigmoidEqualizationLoss`."""
    loss = partial(_with_objectness, equigrad.SigmoidEqualizationLoss, settings)
    return RoIMethod(loss, Always(equigrad.SigmoidObjectnessScores), bias_prior=PRIOR)


def grad_blocking(loss: Callable[[TrainedCategories], nn.Module]) -> RoIMethod:
    """Grad-Blocking, which has no objectness branch: `blocked_by_images` or `blocked_by_instances` with a threshold."""
    return RoIMethod(loss, Always(equigrad.SigmoidScores), bias_prior=PRIOR)


def blocked_by_images(categories: TrainedCategories, *, threshold: float) -> nn.Module:
    """Categories with fewer training images are not suppressed by others."""
    return equigrad.GradientBlockingLoss(categories.image_counts.tolist(), threshold=threshold)


def blocked_by_instances(categories: TrainedCategories, *, threshold: float) -> nn.Module:
    """Categories with fewer training objects are not suppressed by others."""
    return equigrad.GradientBlockingLoss(categories.instance_counts.tolist(), threshold=threshold)


def _with_objectness(
    loss_class: Callable[..., Any], settings: Mapping[str, Any], categories: TrainedCategories
) -> nn.Module:
    return equigrad.WithObjectness(loss_class(len(categories), **settings))


def _plain_sigmoid(categories: TrainedCategories) -> nn.Module:
    # With both weights at 1 it is binary cross-entropy, and watches the gradients for the page.
    return equigrad.SigmoidEqualizationLoss(len(categories), reweight_positive=False, reweight_negative=False)


def _seesaw(categories: TrainedCategories) -> nn.Module:
    return TwoWayObjectness(equigrad.WithObjectness(equigrad.SeesawLoss(len(categories))))


def _seesaw_scores() -> Scores:
    return TwoWayObjectnessScores(equigrad.SoftmaxObjectnessScores())


def _grouped_softmax(categories: TrainedCategories) -> nn.Module:
    return equigrad.GroupedSoftmaxLoss(categories.instance_counts.tolist())


def _grouped_softmax_scores(categories: TrainedCategories) -> Scores:
    return equigrad.GroupedSoftmaxScores(categories.instance_counts.tolist())


CE = RoIMethod(Always(equigrad.CrossEntropyLoss), Always(SoftmaxBackgroundScores), has_background_column=True)
NORCAL = replace(CE, scores=NorCal())
BCE = RoIMethod(_plain_sigmoid, Always(equigrad.SigmoidScores), bias_prior=PRIOR)
BCE_OBJECTNESS = sigmoid_eql(reweight_positive=False, reweight_negative=False)
BAGS = RoIMethod(_grouped_softmax, _grouped_softmax_scores)
SEESAW = RoIMethod(_seesaw, Always(_seesaw_scores), divide_by_rois=True)
SOFTMAX_EQL = RoIMethod(
    partial(_with_objectness, equigrad.SoftmaxEqualizationLoss, {}),
    Always(equigrad.SoftmaxObjectnessScores),
    divide_by_rois=True,
)
SIGMOID_EQL = sigmoid_eql()

# Cosine classifiers as published with the two losses; elsewhere all methods have the same linear one.
SEESAW_COSINE = replace(
    SEESAW, classifier=partial(equigrad.CosineClassifier, temperature=20.0, bias=True, norm_offset=1e-6)
)
SOFTMAX_EQL_COSINE = replace(SOFTMAX_EQL, classifier=equigrad.CosineClassifier)

RoIMethodName = Literal["ce", "bce", "norcal", "bags", "seesaw", "softmax_eql", "sigmoid_eql"]

ROI_METHODS: dict[RoIMethodName, RoIMethod] = {
    "ce": CE,
    "bce": BCE,
    "norcal": NORCAL,
    "bags": BAGS,
    "seesaw": SEESAW,
    "softmax_eql": SOFTMAX_EQL,
    "sigmoid_eql": SIGMOID_EQL,
}
