"""Methods of classification: a loss, and what belongs to it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import nn

import equigrad
from equigrad.models.scores import Scores

Counts = NDArray[np.int64]
SamplerKind = Literal["random", "class_balanced", "repeat_factor"]


def softmax_scores(counts: Counts) -> Scores:
    """Plain softmax; the counts do not matter."""
    return equigrad.SoftmaxScores()


def sigmoid_scores(counts: Counts) -> Scores:
    """A sigmoid for each category; the counts do not matter."""
    return equigrad.SigmoidScores()


@dataclass(frozen=True)
class Method:
    """How a classifier is trained and read, given the training counts (C,).

    Args:
        loss: from the counts to the loss.
        scores: from the counts to the scores.
        bias_prior: probability each category starts with, for sigmoid losses.
        cosine_temperature: of a cosine classifier; None is a linear one.
        second_stage: changes a model that was trained before (`init`) into what is trained now.
        sampler: order of the training images.
        distils: the loss learns from the run in `init` as its teacher.
    """

    loss: Callable[[Counts], nn.Module]
    scores: Callable[[Counts], Scores] = softmax_scores
    bias_prior: float | None = None
    cosine_temperature: float | None = None
    second_stage: Callable[[nn.Module], Any] | None = None
    sampler: SamplerKind = "random"
    distils: bool = False

    @property
    def needs_init(self) -> bool:
        """Whether the method starts from a finished run."""
        return self.second_stage is not None or self.distils


def counting(loss_class: Callable[..., nn.Module], **settings: Any) -> Callable[[Counts], nn.Module]:
    """A loss that is told the counts."""
    return partial(_counting, loss_class, settings)


def _counting(loss_class: Callable[..., nn.Module], settings: dict[str, Any], counts: Counts) -> nn.Module:
    return loss_class(counts.tolist(), **settings)


def sized(loss_class: Callable[..., nn.Module], **settings: Any) -> Callable[[Counts], nn.Module]:
    """A loss that is told the number of categories."""
    return partial(_sized, loss_class, settings)


def _sized(loss_class: Callable[..., nn.Module], settings: dict[str, Any], counts: Counts) -> nn.Module:
    return loss_class(len(counts), **settings)


def plain(loss_class: Callable[..., nn.Module], **settings: Any) -> Callable[[Counts], nn.Module]:
    """A loss that is told nothing."""
    return partial(_plain, loss_class, settings)


def _plain(loss_class: Callable[..., nn.Module], settings: dict[str, Any], counts: Counts) -> nn.Module:
    return loss_class(**settings)


def adjusted_scores(counts: Counts) -> Scores:
    """Post-hoc logit adjustment: the log prior is taken from the logits of a model trained with CE."""
    return equigrad.calibration.AdjustedScores(equigrad.SoftmaxScores(), counts.tolist())


def aligned_cross_entropy(counts: Counts, power: float = 1.2) -> nn.Module:
    """Cross-entropy with DisAlign's weights; rho 1.2 is that of ImageNet-LT, the only one published for images."""
    return equigrad.CrossEntropyLoss(weight=equigrad.decoupling.alignment_weights(counts.tolist(), power))


def distilled_balanced_softmax(counts: Counts) -> nn.Module:
    """DIVE."""
    return equigrad.DistillationLoss(equigrad.BalancedSoftmaxLoss(counts.tolist()))


def distilled_softmax_eql(counts: Counts) -> nn.Module:
    """DIVE-Softmax-EQL."""
    return equigrad.DistillationLoss(equigrad.SoftmaxEqualizationLoss(len(counts)))


def softmax_eql(prior_power: float = 1.0, cosine_temperature: float | None = None) -> Method:
    """Softmax-EQL; the published code trained it with a cosine classifier of temperature 30."""
    loss = sized(equigrad.SoftmaxEqualizationLoss, prior_power=prior_power)
    return Method(loss, cosine_temperature=cosine_temperature)


# A run with CE or BCE watches its gradients too, so that its page can show them: with every weight at 1 and no margin
# the equalization losses are BCE and CE.
CE = Method(sized(equigrad.SoftmaxEqualizationLoss, prior_power=0.0))
BCE = Method(
    sized(equigrad.SigmoidEqualizationLoss, reweight_positive=False, reweight_negative=False),
    scores=sigmoid_scores,
    bias_prior=0.001,
)
SOFTMAX_EQL = softmax_eql()
SIGMOID_EQL = Method(sized(equigrad.SigmoidEqualizationLoss), scores=sigmoid_scores, bias_prior=0.001)
BALANCED_SOFTMAX = Method(counting(equigrad.BalancedSoftmaxLoss))
LOGIT_ADJUSTMENT = Method(counting(equigrad.LogitAdjustmentLoss))
LADE = Method(counting(equigrad.LADELoss))
SEESAW = Method(sized(equigrad.SeesawLoss))
LOGIT_ADJUSTMENT_POST_HOC = Method(CE.loss, scores=adjusted_scores)
# Other weights than on the other benchmarks, as published for iNaturalist 2018.
LADE_INATURALIST = Method(counting(equigrad.LADELoss, weight=0.05, penalty=0.5))
# The published second stages leave the model in training mode: batch norm goes on to follow the data.
CRT = Method(
    CE.loss,
    second_stage=partial(equigrad.decoupling.retrain_classifier, classifier="classifier", batch_norm="moving"),
    sampler="class_balanced",
)
LWS = Method(
    CE.loss,
    second_stage=partial(equigrad.decoupling.learn_scales, classifier="classifier", batch_norm="moving"),
    sampler="class_balanced",
)
DISALIGN = Method(aligned_cross_entropy, second_stage=partial(equigrad.decoupling.align, classifier="classifier"))
DIVE = Method(distilled_balanced_softmax, distils=True)
DIVE_SOFTMAX_EQL = Method(distilled_softmax_eql, distils=True)

MethodName = Literal[
    "ce",
    "bce",
    "logit_adjustment",
    "logit_adjustment_post_hoc",
    "balanced_softmax",
    "lade",
    "crt",
    "lws",
    "disalign",
    "dive",
    "seesaw",
    "sigmoid_eql",
    "softmax_eql",
    "softmax_eql_cosine",
    "dive_softmax_eql",
]

ROWS: dict[MethodName, tuple[str, Method]] = {
    "ce": ("CE", CE),
    "bce": ("BCE", BCE),
    "logit_adjustment": ("Logit Adjustment", LOGIT_ADJUSTMENT),
    "logit_adjustment_post_hoc": ("Logit Adjustment (post-hoc)", LOGIT_ADJUSTMENT_POST_HOC),
    "balanced_softmax": ("Balanced Softmax", BALANCED_SOFTMAX),
    "lade": ("LADE", LADE),
    "crt": ("cRT", CRT),
    "lws": ("LWS", LWS),
    "disalign": ("DisAlign", DISALIGN),
    "dive": ("DIVE", DIVE),
    "seesaw": ("Seesaw Loss", SEESAW),
    "sigmoid_eql": ("Sigmoid-EQL", SIGMOID_EQL),
    "softmax_eql": ("Softmax-EQL", SOFTMAX_EQL),
    # The published code used a cosine classifier, which the paper does not say.
    "softmax_eql_cosine": ("Softmax-EQL", softmax_eql(cosine_temperature=30.0)),
    "dive_softmax_eql": ("DIVE-Softmax-EQL", DIVE_SOFTMAX_EQL),
}
"""Rows of the paper's classification tables: what it calls them, and the method."""
