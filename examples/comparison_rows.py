"""The rows of `compare_losses.py`: every method of the package that makes sense with one category per image."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import nn

import equigrad
from equigrad import decoupling
from equigrad.models.classification.classifier import Classifier, Scores
from equigrad.recipes.methods.classification import METHODS, MethodName
from equigrad.tasks.losses import CategoryCounts, LogitAdjustment, SigmoidEql, SoftmaxEql
from equigrad.tasks.methods import Method
from equigrad.tasks.scores import Sigmoid

AfterEpoch = Callable[[Classifier, int], Any]
BIAS_PRIOR = 0.01  # where the sigmoids start: 1 / C for a hundred categories


@dataclass(frozen=True)
class Row:
    """How a last layer is trained.

    Args:
        method: as recipes have it.
        loss: of the training counts, in place of the method's: a loss that recipes do not have.
        scores: in place of the method's.
        first: the method whose finished model this one starts from.
        after_epoch: what is done to the model after each epoch.
        after: what is done to it in the end.
        settings: what the table says about it.
    """

    method: Method
    loss: Callable[[CategoryCounts], nn.Module] | None = None
    scores: Callable[[CategoryCounts], Scores] | None = None
    first: Method | None = None
    after_epoch: AfterEpoch | None = None
    after: Callable[[Classifier], Any] | None = None
    settings: str = ""

    def build_loss(self, counts: CategoryCounts) -> nn.Module:
        return self.method.loss.build(counts) if self.loss is None else self.loss(counts)

    def build_scores(self, counts: CategoryCounts) -> Scores:
        return self.method.scores.build(counts) if self.scores is None else self.scores(counts)


def method_row(name: MethodName, first: MethodName | None = None) -> Row:
    """A method of the recipes, from a finished model of another one if it needs it."""
    return Row(METHODS[name][1], first=None if first is None else METHODS[first][1])


def sigmoid(loss: SigmoidEql | Callable[[CategoryCounts], nn.Module], settings: str = "") -> Row:
    if isinstance(loss, SigmoidEql):
        return Row(Method(loss, scores=Sigmoid(), bias_prior=BIAS_PRIOR), settings=settings)
    return replace(sigmoid(SigmoidEql(), settings), loss=loss)


def softmax_eql(power: float, cosine_temperature: float | None = None) -> Row:
    method = Method(SoftmaxEql(prior_power=power), cosine_temperature=cosine_temperature)
    return Row(method, settings=f"prior_power {power:g}")


def softmax_eql_first_epoch(power: float) -> Row:
    """The margin is that of the first epoch: a loss in evaluation mode works on and gathers nothing."""
    return replace(softmax_eql(power), after_epoch=stop_gathering)


def stop_gathering(model: Classifier, epoch: int) -> None:
    model.classification_loss.eval()


def sigmoid_eql(boost: float, steepness: float) -> Row:
    loss = SigmoidEql(positive_boost=boost, steepness=steepness)
    return sigmoid(loss, f"positive_boost {boost:g}, steepness {steepness:g}")


def adjusted_by_gradient(row: Row, strength: float) -> Row:
    """Post-hoc logit adjustment by the positive gradient that the loss has gathered, where nobody knows the counts."""

    def adjust(model: Classifier) -> None:
        prior = model.classification_loss.statistics.positive
        model.scores = equigrad.calibration.AdjustedScores(model.scores, prior, strength=strength)

    return replace(row, after=adjust, settings=f"strength {strength:g}")


def adjustment(strength: float) -> Row:
    return Row(Method(LogitAdjustment(strength)), settings=f"strength {strength:g}")


def tau_norm(power: float) -> Row:
    after = partial(decoupling.normalize_weights, classifier="classifier", power=power)
    return replace(CE, after=after, settings=f"power {power:g}")


def focal(counts: CategoryCounts) -> nn.Module:
    return equigrad.FocalLoss()


def efl(counts: CategoryCounts) -> nn.Module:
    return equigrad.EqualizedFocalLoss(counts.num_classes)


def class_balanced(counts: CategoryCounts) -> nn.Module:
    return equigrad.CrossEntropyLoss(weight=equigrad.effective_number_weights(counts.images.tolist()))


def bags_loss(counts: CategoryCounts) -> nn.Module:
    return equigrad.GroupedSoftmaxLoss(counts.images.tolist(), background=False)


def bags_scores(counts: CategoryCounts) -> equigrad.GroupedSoftmaxScores:
    return equigrad.GroupedSoftmaxScores(counts.images.tolist(), background=False)


def ldam(counts: CategoryCounts, epochs: int) -> nn.Module:
    deferral = int(0.8 * epochs * math.ceil(counts.images.sum() / 128))
    return equigrad.LDAMLoss(counts.images.tolist(), deferral=deferral)


def effective_class_margin(counts: CategoryCounts) -> nn.Module:
    return equigrad.EffectiveClassMarginLoss(counts.images.tolist())


CE = method_row("ce")
SIGMOID_EQL = sigmoid_eql(4.0, 12.0)


def without_counts() -> dict[str, Row]:
    """Losses that nobody tells how often a category occurs."""
    return {
        "CE": CE,
        "CE, gradient post-hoc": adjusted_by_gradient(CE, 1.0),
        "BCE": sigmoid(SigmoidEql(reweight_positive=False, reweight_negative=False)),
        "Focal loss": sigmoid(focal),
        "Seesaw": method_row("seesaw"),
        "EFL": sigmoid(efl),
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
        "Class-balanced CE": replace(CE, loss=class_balanced),
        "Logit Adj., post-hoc": method_row("logit_adjustment_post_hoc"),
        "Logit Adjustment": adjustment(1.0),
        "Balanced Softmax": method_row("balanced_softmax"),
        "LADE": method_row("lade"),
        "LDAM-DRW": replace(softmax_eql(0.0, cosine_temperature=1.0), loss=partial(ldam, epochs=epochs), settings=""),
        "BAGS": replace(CE, loss=bags_loss, scores=bags_scores),
        "ECM": sigmoid(effective_class_margin),
        "cRT": method_row("crt", first="ce"),
        "LWS": method_row("lws", first="ce"),
        "DisAlign": method_row("disalign", first="ce"),
        "DIVE": method_row("dive", first="balanced_softmax"),
        "DIVE-Softmax-EQL": method_row("dive_softmax_eql", first="balanced_softmax"),
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
