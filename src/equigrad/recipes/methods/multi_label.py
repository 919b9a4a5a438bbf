"""Methods of images with several categories each: a sigmoid for each category."""

from typing import Literal

from equigrad.recipes.methods.classification import BCE, SIGMOID_EQL
from equigrad.tasks.losses import Efl, FocalEql
from equigrad.tasks.methods import Method
from equigrad.tasks.scores import Sigmoid

MultiLabelMethodName = Literal["bce", "sigmoid_eql", "fl", "fl_eql", "efl"]

_PRIOR = 0.01  # an image shows a few of some dozen categories

# Without alpha_t, which suits the background of detectors: here it would only scale positives down.
METHODS: dict[MultiLabelMethodName, Method] = {
    "bce": BCE,
    "sigmoid_eql": SIGMOID_EQL,
    "fl": Method(Efl(focus_scale=0.0, positive_balance=None), scores=Sigmoid(), bias_prior=_PRIOR),
    "fl_eql": Method(FocalEql(positive_balance=None), scores=Sigmoid(), bias_prior=_PRIOR),
    "efl": Method(Efl(positive_balance=None), scores=Sigmoid(), bias_prior=_PRIOR),
}
