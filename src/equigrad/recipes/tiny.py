"""Glyphs on a CPU, a minute each: the same code as the real thing, and what the demo runs.

equigrad train tiny:softmax_eql --run runs/softmax_eql
"""

from dataclasses import replace
from functools import partial

from equigrad.engine import TrainSettings
from equigrad.engine.optimizers import SGD
from equigrad.engine.schedule import Cosine, Schedule, Warmup
from equigrad.models.backbones.small_conv_net import SmallConvNet
from equigrad.models.backbones.small_encoder import SmallEncoder
from equigrad.models.segmentation.deeplab import DeepLabV3PlusHead
from equigrad.recipes import methods
from equigrad.recipes.classification import ClassificationRecipe
from equigrad.recipes.glyph_scenes import GlyphScenes
from equigrad.recipes.image_data import GlyphImages
from equigrad.recipes.pixel_methods import PixelMethodName, pixel_method
from equigrad.recipes.segmentation import SegmentationRecipe

_BIAS_PRIOR = 0.01  # of 40 categories; the paper's 0.001 is for 1,203, and a few hundred steps do not make up for it


def ce() -> ClassificationRecipe:
    """Cross-entropy: the head is learnt, the tail is not."""
    return ClassificationRecipe(
        data=GlyphImages(),
        backbone=partial(SmallConvNet, width=16),
        method=methods.CE,
        training=TrainSettings(
            optimizer=SGD(lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4),
            schedule=Schedule(epochs=10, decay=Cosine(), warmup=Warmup(40)),
            batch_size=64,
            channels_last=True,
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
    return replace(ce(), method=replace(methods.BCE, bias_prior=_BIAS_PRIOR))


def sigmoid_eql() -> ClassificationRecipe:
    """Sigmoid-EQL: binary cross-entropy re-weighted by the gradient ratio."""
    return replace(ce(), method=replace(methods.SIGMOID_EQL, bias_prior=_BIAS_PRIOR))


def balanced_softmax() -> ClassificationRecipe:
    """Balanced Softmax, which is told the counts."""
    return replace(ce(), method=methods.BALANCED_SOFTMAX)


def segmentation(method: PixelMethodName = "softmax_eql") -> SegmentationRecipe:
    """Semantic segmentation of glyph scenes: DeepLabV3+ on four convolutions."""
    return SegmentationRecipe(
        data=GlyphScenes(),
        backbone=SmallEncoder,
        head=partial(DeepLabV3PlusHead, channels=48, low_channels=16, dilations=(1, 2, 4), separable=False),
        method=pixel_method(method)[1],
        training=TrainSettings(
            optimizer=SGD(lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4),
            schedule=Schedule(epochs=16, decay=Cosine(), warmup=Warmup(10)),
            batch_size=16,
            max_grad_norm=10.0,
            channels_last=True,
            num_workers=0,
            log_every=50,
            evaluate_every=100,
        ),
        auxiliary="none",
    )
