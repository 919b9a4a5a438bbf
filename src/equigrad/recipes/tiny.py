"""Glyphs on a CPU, a minute each: the same code as the real thing, and what the demo runs.

equigrad train tiny:softmax_eql --run runs/softmax_eql
"""

from dataclasses import replace

from equigrad.engine import SGD, Cosine, Schedule, TrainSettings, Warmup
from equigrad.recipes.methods.classification import METHODS, MethodName
from equigrad.recipes.methods.segmentation import PixelMethodName, pixel_method
from equigrad.tasks.backbones import SmallConv, SmallSegmentationEncoder
from equigrad.tasks.classification.data import GlyphImages
from equigrad.tasks.classification.recipe import ClassificationRecipe
from equigrad.tasks.segmentation.glyph_scenes import GlyphScenes
from equigrad.tasks.segmentation.heads import DeepLabV3Plus
from equigrad.tasks.segmentation.recipe import SegmentationRecipe

_PRIOR = 0.01  # of 40 categories; the paper's 0.001 is for 1,203, and a few hundred steps do not make up for it


def ce() -> ClassificationRecipe:
    """Cross-entropy: the head is learnt, the tail is not."""
    return _glyphs("ce")


def softmax_eql() -> ClassificationRecipe:
    """Softmax-EQL: cross-entropy with a margin from the gradients."""
    return _glyphs("softmax_eql")


def bce() -> ClassificationRecipe:
    """Binary cross-entropy: a sigmoid for each category, all with the same weight."""
    return _glyphs("bce")


def sigmoid_eql() -> ClassificationRecipe:
    """Sigmoid-EQL: binary cross-entropy re-weighted by the gradient ratio."""
    return _glyphs("sigmoid_eql")


def balanced_softmax() -> ClassificationRecipe:
    """Balanced Softmax, which needs the counts."""
    return _glyphs("balanced_softmax")


def _glyphs(name: MethodName) -> ClassificationRecipe:
    _, method = METHODS[name]
    return ClassificationRecipe(
        data=GlyphImages(),
        backbone=SmallConv(width=16),
        method=method if method.bias_prior is None else replace(method, bias_prior=_PRIOR),
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


def segmentation(method: PixelMethodName = "softmax_eql") -> SegmentationRecipe:
    """Semantic segmentation of glyph scenes: DeepLabV3+ on four convolutions."""
    return SegmentationRecipe(
        data=GlyphScenes(),
        backbone=SmallSegmentationEncoder(),
        head=DeepLabV3Plus(channels=48, low_channels=16, dilations=(1, 2, 4), separable=False),
        method=pixel_method(method),
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
