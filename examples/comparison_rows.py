"""The rows of `compare_losses.py`: every method of the package that makes sense with one category an image."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import nn

import equigrad
from equigrad import decoupling
from equigrad.models.classification.classifier import Classifier
from equigrad.recipes import methods
from equigrad.recipes.methods import Counts, Method, counting, plain, sized

AfterEpoch = Callable[[Classifier, int], Any]
BIAS_PRIOR = 0.01  # where the sigmoids start: 1 / C for a hundred categories


@dataclass(frozen=True)
class Row:
    """A method, the one whose finished model it starts from, and what is done after each epoch and after all."""

    method: Method
    first: Method | None = None
    after_epoch: AfterEpoch | None = None
    after: Callable[[Classifier], Any] | None = None
    settings: str = ""


def sigmoid(loss: Callable[[Counts], nn.Module], settings: str = "") -> Row:
    return Row(Method(loss, scores=methods.sigmoid_scores, bias_prior=BIAS_PRIOR), settings=settings)


def softmax_eql(power: float, cosine_temperature: float | None = None) -> Row:
    return Row(methods.softmax_eql(power, cosine_temperature), settings=f"prior_power {power:g}")


def softmax_eql_first_epoch(power: float) -> Row:
    """The margin is that of the first epoch: a loss in evaluation mode works on and gathers nothing."""
    return replace(softmax_eql(power), after_epoch=stop_gathering)


def stop_gathering(model: Classifier, epoch: int) -> None:
    model.classification_loss.eval()


def sigmoid_eql(boost: float, steepness: float) -> Row:
    loss = sized(equigrad.SigmoidEqualizationLoss, positive_boost=boost, steepness=steepness)
    return sigmoid(loss, f"positive_boost {boost:g}, steepness {steepness:g}")


def adjusted_by_gradient(row: Row, strength: float) -> Row:
    """Post-hoc logit adjustment by the positive gradient that the loss has gathered, where nobody knows the counts."""

    def adjust(model: Classifier) -> None:
        prior = model.classification_loss.statistics.positive
        model.scores = equigrad.calibration.AdjustedScores(model.scores, prior, strength=strength)

    return replace(row, after=adjust, settings=f"strength {strength:g}")


def adjustment(strength: float) -> Row:
    loss = counting(equigrad.LogitAdjustmentLoss, strength=strength)
    return Row(Method(loss), settings=f"strength {strength:g}")


def tau_norm(power: float) -> Row:
    after = partial(decoupling.normalize_weights, classifier="classifier", power=power)
    return Row(methods.CE, after=after, settings=f"power {power:g}")


def class_balanced(counts: Counts) -> nn.Module:
    return equigrad.CrossEntropyLoss(category_weights=equigrad.effective_number_weights(counts.tolist()))


def bags_loss(counts: Counts) -> nn.Module:
    return equigrad.GroupedSoftmaxLoss(counts.tolist(), background=False)


def bags_scores(counts: Counts) -> equigrad.GroupedSoftmaxScores:
    return equigrad.GroupedSoftmaxScores(counts.tolist(), background=False)


def ldam(counts: Counts, epochs: int) -> nn.Module:
    deferral = int(0.8 * epochs * math.ceil(counts.sum() / 128))
    return equigrad.LDAMLoss(counts.tolist(), deferral=deferral)


CE = Row(methods.CE)
SIGMOID_EQL = sigmoid_eql(4.0, 12.0)


def without_counts() -> dict[str, Row]:
    """Losses that nobody tells how often a category occurs."""
    return {
        "CE": CE,
        "CE, gradient post-hoc": adjusted_by_gradient(CE, 1.0),
        "BCE": sigmoid(methods.BCE.loss),
        "Focal loss": sigmoid(plain(equigrad.FocalLoss)),
        "Seesaw": Row(methods.SEESAW),
        "EFL": sigmoid(sized(equigrad.EqualizedFocalLoss)),
        "Sigmoid-EQL": SIGMOID_EQL,
        "Sigmoid-EQL, post-hoc": adjusted_by_gradient(SIGMOID_EQL, 1.0),
        "Softmax-EQL": softmax_eql(1.0),
        "Softmax-EQL, power 2": softmax_eql(2.0),
        "Softmax-EQL, power 2.5": softmax_eql(2.5),
        "Softmax-EQL, power 3": softmax_eql(3.0),
        "Softmax-EQL, epoch 1": softmax_eql_first_epoch(1.0),
        "Softmax-EQL, cosine": softmax_eql(1.0, 30.0),
        "tau-norm": tau_norm(1.0),
    }


def with_counts(epochs: int) -> dict[str, Row]:
    """Losses that use the category counts, and second stages with class-balanced samples."""
    return {
        "Class-balanced CE": Row(Method(class_balanced)),
        "Logit Adj., post-hoc": Row(methods.LOGIT_ADJUSTMENT_POST_HOC),
        "Logit Adjustment": adjustment(1.0),
        "Balanced Softmax": Row(methods.BALANCED_SOFTMAX),
        "LADE": Row(methods.LADE),
        "LDAM-DRW": Row(Method(partial(ldam, epochs=epochs), cosine_temperature=1.0)),
        "BAGS": Row(Method(bags_loss, scores=bags_scores)),
        "ECM": sigmoid(counting(equigrad.EffectiveClassMarginLoss)),
        "cRT": Row(methods.CRT, first=methods.CE),
        "LWS": Row(methods.LWS, first=methods.CE),
        "DisAlign": Row(methods.DISALIGN, first=methods.CE),
        "DIVE": Row(methods.DIVE, first=methods.BALANCED_SOFTMAX),
        "DIVE-Softmax-EQL": Row(methods.DIVE_SOFTMAX_EQL, first=methods.BALANCED_SOFTMAX),
    }


def candidates() -> dict[str, list[Row]]:
    """Settings to choose from, for the losses whose best setting depends on the data."""
    powers = (1.0, 1.5, 2.0, 2.5, 3.0)
    strengths = (0.5, *powers)
    return {
        "CE, gradient post-hoc": [adjusted_by_gradient(CE, strength) for strength in strengths],
        "Sigmoid-EQL": [SIGMOID_EQL, sigmoid_eql(4.0, 24.0), sigmoid_eql(4.0, 48.0)],
        "Sigmoid-EQL, post-hoc": [adjusted_by_gradient(SIGMOID_EQL, strength) for strength in strengths],
        "Softmax-EQL": [softmax_eql(power) for power in powers],
        "Softmax-EQL, epoch 1": [softmax_eql_first_epoch(power) for power in powers[:-1]],
        "tau-norm": [tau_norm(power) for power in (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)],
        "Logit Adjustment": [adjustment(strength) for strength in (0.5, 1.0, 1.25, 1.5, 2.0)],
    }
