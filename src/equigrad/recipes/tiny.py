"""Glyphs on a CPU, a minute each: the same code as the real thing, and what the demo runs.

equigrad train tiny:softmax_eql --run runs/softmax_eql
"""

from dataclasses import replace

from equigrad.engine import TrainSettings
from equigrad.engine.optimizers import SGD
from equigrad.engine.schedule import Cosine, Schedule, Warmup
from equigrad.models.small_nets import SmallConvNet
from equigrad.recipes import methods
from equigrad.recipes.classification import ClassificationRecipe
from equigrad.recipes.image_data import GlyphImages


def ce() -> ClassificationRecipe:
    """Cross-entropy: the head is learnt, the tail is not."""
    return ClassificationRecipe(
        data=GlyphImages(),
        backbone=SmallConvNet,
        method=methods.CE,
        training=TrainSettings(
            optimizer=SGD(lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4),
            schedule=Schedule(epochs=16, decay=Cosine(), warmup=Warmup(40)),
            batch_size=64,
            num_workers=0,
            log_every=50,
            evaluate_every=100,
        ),
    )


def softmax_eql(prior_power: float = 1.0) -> ClassificationRecipe:
    """Softmax-EQL: cross-entropy with a margin from the gradients."""
    return replace(ce(), method=methods.softmax_eql(prior_power))


def bce() -> ClassificationRecipe:
    """Binary cross-entropy."""
    return replace(ce(), method=methods.BCE)


def sigmoid_eql() -> ClassificationRecipe:
    """Sigmoid-EQL: binary cross-entropy re-weighted by the gradient ratio."""
    return replace(ce(), method=methods.SIGMOID_EQL)


def balanced_softmax() -> ClassificationRecipe:
    """Balanced Softmax, which is told the counts."""
    return replace(ce(), method=methods.BALANCED_SOFTMAX)
