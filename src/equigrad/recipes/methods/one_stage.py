"""Methods of one-stage detectors by name: which loss classifies the anchors or locations."""

from typing import Literal

from equigrad.tasks.losses import Efl, Eqfl, Evfl, FocalEql, QualityFocal, SigmoidEql
from equigrad.tasks.methods import DenseMethod

DenseMethodName = Literal["bce", "fl", "fl_eql", "efl", "qfl", "eqfl", "vfl", "evfl"]

# With every factor at its base the equalized losses are the plain ones, and watch the gradients for the page.
METHODS: dict[DenseMethodName, DenseMethod] = {
    "bce": DenseMethod(SigmoidEql(reweight_positive=False, reweight_negative=False)),
    "fl": DenseMethod(Efl(focus_scale=0.0)),
    "fl_eql": DenseMethod(FocalEql()),
    "efl": DenseMethod(Efl()),
    "qfl": DenseMethod(Eqfl(focus_scale=0.0)),
    "eqfl": DenseMethod(Eqfl()),
    "vfl": DenseMethod(Evfl(focus_scale=0.0)),
    "evfl": DenseMethod(Evfl()),
}

SOFT_BCE = DenseMethod(QualityFocal(focus=0.0))
"""What YOLOX calls its sigmoid loss: binary cross-entropy with the IoU as soft label."""
