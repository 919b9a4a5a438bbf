"""Methods of two-stage detectors by name: the loss of the proposals, with the scores and the classifier it needs."""

from dataclasses import replace
from typing import Literal

from equigrad.tasks.losses import (
    BackgroundCrossEntropy,
    GradientBlocking,
    GroupedSoftmax,
    Seesaw,
    SigmoidEql,
    SoftmaxEql,
    WithObjectness,
)
from equigrad.tasks.methods import CosineLayer, LinearClassifier, RoIMethod
from equigrad.tasks.scores import (
    GroupedSoftmaxProduct,
    NorCal,
    Sigmoid,
    SigmoidObjectness,
    SoftmaxBackground,
    SoftmaxObjectness,
)

PRIOR = 0.001
"""Probability that each sigmoid of the paper's detectors starts with."""

_PLAIN_SIGMOID = SigmoidEql(reweight_positive=False, reweight_negative=False)  # BCE that watches the gradients


def sigmoid_eql(loss: SigmoidEql) -> RoIMethod:
    """Sigmoid-EQL with an objectness branch."""
    return RoIMethod(WithObjectness(loss), SigmoidObjectness(), LinearClassifier(PRIOR))


def gradient_blocking(loss: GradientBlocking) -> RoIMethod:
    """Grad-Blocking, which has no objectness branch."""
    return RoIMethod(loss, Sigmoid(), LinearClassifier(PRIOR))


def with_prior(method: RoIMethod, prior: float) -> RoIMethod:
    """The method with another prior, where it has one."""
    classifier = method.classifier
    if isinstance(classifier, LinearClassifier) and classifier.prior is not None:
        return replace(method, classifier=LinearClassifier(prior))
    return method


CE = RoIMethod(BackgroundCrossEntropy(), SoftmaxBackground(), has_background_column=True)
NORCAL = replace(CE, scores=NorCal())
BCE = RoIMethod(_PLAIN_SIGMOID, Sigmoid(), LinearClassifier(PRIOR))
BCE_OBJECTNESS = sigmoid_eql(_PLAIN_SIGMOID)
BAGS = RoIMethod(GroupedSoftmax(), GroupedSoftmaxProduct())
SEESAW = RoIMethod(WithObjectness(Seesaw(), two_way=True), SoftmaxObjectness(two_way=True), divide_by_rois=True)
SOFTMAX_EQL = RoIMethod(WithObjectness(SoftmaxEql()), SoftmaxObjectness(), divide_by_rois=True)
SIGMOID_EQL = sigmoid_eql(SigmoidEql())

# Cosine classifiers as published with the two losses; elsewhere all methods have the same linear one.
SEESAW_COSINE = replace(SEESAW, classifier=CosineLayer(temperature=20.0, bias=True, norm_offset=1e-6))
SOFTMAX_EQL_COSINE = replace(SOFTMAX_EQL, classifier=CosineLayer())

RoIMethodName = Literal["ce", "bce", "norcal", "bags", "seesaw", "seesaw_cosine", "softmax_eql", "sigmoid_eql"]

METHODS: dict[RoIMethodName, RoIMethod] = {
    "ce": CE,
    "bce": BCE,
    "norcal": NORCAL,
    "bags": BAGS,
    "seesaw": SEESAW,
    "seesaw_cosine": SEESAW_COSINE,
    "softmax_eql": SOFTMAX_EQL,
    "sigmoid_eql": SIGMOID_EQL,
}
