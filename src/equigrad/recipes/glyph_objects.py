"""Glyph scenes in LVIS's format on a CPU: detectors that are trained in minutes, with the same code as the real ones.

    equigrad train glyph_objects:one_stage --set method=fl --run runs/fl
    equigrad train glyph_objects:one_stage --set method=efl --run runs/efl
    equigrad report runs/fl runs/efl

120 categories with the shape of LVIS's tail: 34 rare ones have 1 to 10 training images, 41 frequent ones up to 1,000.
Results are in docs/evidence/one_stage.md and two_stage.md.
"""

from equigrad.engine import SGD, Cosine, Schedule, TrainSettings, Warmup
from equigrad.models.detection.two_stage.roi_sampling import RoISampler
from equigrad.recipes.methods import one_stage as one_stage_methods, two_stage as two_stage_methods
from equigrad.tasks.backbones import SmallPyramid
from equigrad.tasks.detection.data import GlyphObjects
from equigrad.tasks.detection.detectors import RCNN, ImprovedAtss
from equigrad.tasks.detection.preprocessing import ShorterSide
from equigrad.tasks.detection.recipe import DetectionRecipe

# No flips: a mirrored glyph is another character.
_PREPROCESSING = ShorterSide(short=(96,), test_short=96, long=96, flip=0.0)

# The paper's 0.001 is for LVIS, whose batches have a hundred times the anchors and sixteen times the RoIs of one here.
# The negative gradient of a category that is not there grows with their number, and in focal loss with the third power
# of the probability, in BCE with the probability itself: 0.01 here is about the 0.001 there.
_PRIOR = 0.01


def one_stage(method: one_stage_methods.DenseMethodName = "efl") -> DetectionRecipe:
    """The improved baseline on a small pyramid."""
    return DetectionRecipe(
        data=GlyphObjects(),
        preprocessing=_PREPROCESSING,
        backbone=SmallPyramid(width=16, strides=(8, 16, 32), num_channels=64),
        detector=ImprovedAtss(prior=_PRIOR),
        method=one_stage_methods.METHODS[method],
        training=_training(lr=0.1, epochs=5, max_grad_norm=35.0),
        test_batch_size=16,
    )


def mask_rcnn(method: two_stage_methods.RoIMethodName = "sigmoid_eql") -> DetectionRecipe:
    """Mask R-CNN on a small pyramid, with few RoIs per image."""
    return DetectionRecipe(
        data=GlyphObjects(),
        preprocessing=_PREPROCESSING,
        backbone=SmallPyramid(width=16, strides=(4, 8, 16, 32), num_channels=32),
        detector=RCNN(
            with_masks=True,
            class_agnostic=True,
            num_features=256,
            num_mask_channels=32,
            sampling_ratio=1,  # most bins are smaller than a cell of the map
            num_proposals=100,
            rois=RoISampler(32),
        ),
        method=two_stage_methods.with_prior(two_stage_methods.METHODS[method], _PRIOR),
        training=_training(lr=0.05, epochs=2, max_grad_norm=5.0),
        test_batch_size=16,
    )


def _training(lr: float, epochs: float, max_grad_norm: float) -> TrainSettings:
    return TrainSettings(
        optimizer=SGD(lr=lr, momentum=0.9, weight_decay=1e-4),
        schedule=Schedule(epochs=epochs, decay=Cosine(), warmup=Warmup(100)),
        batch_size=16,
        max_grad_norm=max_grad_norm,
        channels_last=True,
        num_workers=1,
        log_every=50,
        evaluate_every=100,
    )
