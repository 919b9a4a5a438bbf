"""Rows of the two-stage tables on a few glyph scenes: two steps of a small Mask R-CNN, in seconds."""

from dataclasses import replace
from pathlib import Path

from equigrad.engine import SGD, Schedule, TrainSettings
from equigrad.models.detection.two_stage.roi_sampling import RoISampler
from equigrad.recipes import two_stage
from equigrad.recipes.methods.two_stage import METHODS, RoIMethodName
from equigrad.tasks.backbones import SmallPyramid
from equigrad.tasks.detection.data import GlyphObjects
from equigrad.tasks.detection.preprocessing import ShorterSide

NUM_STEPS = 2


def plain(method: RoIMethodName, root: Path):
    """A first stage."""
    return _small(replace(two_stage.decoupled("ce"), method=METHODS[method]), root)


def decoupled(method: two_stage.DecoupledName, root: Path):
    return _small(two_stage.decoupled(method), root)


def better_representation(method: two_stage.RepresentationName, root: Path):
    return _small(two_stage.better_representation(method), root)


def _small(recipe, root):
    size = {"num_features": 16, "num_mask_channels": 8, "num_proposals": 20, "rois": RoISampler(32)}
    return replace(
        recipe,
        data=GlyphObjects(root, num_classes=8, max_count=12, test_count=1, image_size=64),
        preprocessing=ShorterSide(short=(64,), test_short=64, long=64, flip=0.0),
        backbone=SmallPyramid(4, num_channels=8, strides=(8, 16, 32)),
        detector=replace(recipe.detector, class_agnostic=True, **size),
        training=TrainSettings(SGD(lr=0.02), Schedule(steps=NUM_STEPS), batch_size=4, num_workers=0, log_every=1),
        test_batch_size=16,
    )
