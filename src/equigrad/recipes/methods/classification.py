"""Methods of image classification, with what the paper calls them."""

from dataclasses import replace
from typing import Literal

from equigrad.tasks.losses import (
    AlignedCrossEntropy,
    BalancedSoftmax,
    Distillation,
    Lade,
    LogitAdjustment,
    Seesaw,
    SigmoidEql,
    SoftmaxEql,
)
from equigrad.tasks.methods import Align, LearnScales, Method, RetrainClassifier
from equigrad.tasks.scores import AdjustedSoftmax, Sigmoid

PRIOR = 0.001
"""Probability that each sigmoid of the paper's models starts with."""

# A run with CE or BCE watches its gradients too, so that its page can show them: with every weight at 1 and no margin
# the equalization losses are BCE and CE.
CE = Method(SoftmaxEql(prior_power=0.0))
BCE = Method(SigmoidEql(reweight_positive=False, reweight_negative=False), scores=Sigmoid(), bias_prior=PRIOR)
SOFTMAX_EQL = Method(SoftmaxEql())
SOFTMAX_EQL_COSINE = replace(SOFTMAX_EQL, cosine_temperature=30.0)
SIGMOID_EQL = Method(SigmoidEql(), scores=Sigmoid(), bias_prior=PRIOR)
# Other weights than on the other benchmarks, as published for iNaturalist 2018.
LADE_INATURALIST = Method(Lade(weight=0.05, penalty=0.5))

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
    "seesaw_cosine",
    "sigmoid_eql",
    "softmax_eql",
    "softmax_eql_cosine",
    "softmax_eql_released",
    "dive_softmax_eql",
]

METHODS: dict[MethodName, tuple[str, Method]] = {
    "ce": ("CE", CE),
    "bce": ("BCE", BCE),
    "logit_adjustment": ("Logit Adjustment", Method(LogitAdjustment())),
    "logit_adjustment_post_hoc": ("Logit Adjustment (post-hoc)", replace(CE, scores=AdjustedSoftmax())),
    "balanced_softmax": ("Balanced Softmax", Method(BalancedSoftmax())),
    "lade": ("LADE", Method(Lade())),
    "crt": ("cRT", replace(CE, second_stage=RetrainClassifier(), sampler="class_balanced")),
    "lws": ("LWS", replace(CE, second_stage=LearnScales(), sampler="class_balanced")),
    "disalign": ("DisAlign", Method(AlignedCrossEntropy(), second_stage=Align())),
    "dive": ("DIVE", Method(Distillation())),
    "seesaw": ("Seesaw Loss", Method(Seesaw())),
    "seesaw_cosine": ("Seesaw Loss", Method(Seesaw(), cosine_temperature=20.0)),
    "sigmoid_eql": ("Sigmoid-EQL", SIGMOID_EQL),
    "softmax_eql": ("Softmax-EQL", SOFTMAX_EQL),
    # The released code has a cosine classifier, which the paper does not mention: here that classifier alone, and, as
    # `softmax_eql_released`, the rest of the released settings with it, where a benchmark has them.
    "softmax_eql_cosine": ("Softmax-EQL", SOFTMAX_EQL_COSINE),
    "softmax_eql_released": ("Softmax-EQL", SOFTMAX_EQL_COSINE),
    "dive_softmax_eql": ("DIVE-Softmax-EQL", Method(Distillation(SoftmaxEql()))),
}
"""What the paper's classification tables call a method, and the method."""

FIRST_STAGES: dict[MethodName, MethodName] = {
    **dict.fromkeys(("crt", "lws", "disalign"), "ce"),
    **dict.fromkeys(("dive", "dive_softmax_eql"), "balanced_softmax"),
}
"""The method of the finished run that a method starts from."""
