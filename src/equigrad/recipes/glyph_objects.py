"""Glyph scenes in LVIS's format on a CPU: detectors that are trained in minutes, with the same code as the real ones.

equigrad train glyph_objects:one_stage --set method=efl --run runs/efl
"""

from functools import partial

from equigrad.engine import SGD, Schedule, TrainSettings, Warmup
from equigrad.engine.schedule import Cosine
from equigrad.models.atss import improved_atss
from equigrad.models.rcnn import faster_rcnn
from equigrad.models.small_fpn import SmallFPN
from equigrad.recipes.dense_methods import DENSE_METHODS, DenseMethodName, OneStage
from equigrad.recipes.detection import DetectionRecipe
from equigrad.recipes.detection_data import GlyphObjects
from equigrad.recipes.detection_views import ShorterSide
from equigrad.recipes.roi_methods import ROI_METHODS, RoIMethodName, TwoStage

# No flips: a mirrored glyph is another character.
_VIEWS = ShorterSide(short=(128,), test_short=128, long=128, flip=0.0)


def one_stage(method: DenseMethodName = "efl") -> DetectionRecipe:
    """The improved baseline on a small pyramid."""
    return DetectionRecipe(
        data=GlyphObjects(),
        views=_VIEWS,
        backbone=partial(SmallFPN, width=16, num_channels=64, strides=(8, 16, 32)),
        detector=OneStage(improved_atss, DENSE_METHODS[method]),
        training=_training(lr=0.02, epochs=12),
        test_batch_size=16,
    )


def mask_rcnn(method: RoIMethodName = "sigmoid_eql") -> DetectionRecipe:
    """Mask R-CNN on a small pyramid."""
    build = partial(faster_rcnn, num_features=256, num_mask_channels=32, num_proposals=100)
    return DetectionRecipe(
        data=GlyphObjects(),
        views=_VIEWS,
        backbone=partial(SmallFPN, width=16, num_channels=64, strides=(4, 8, 16, 32)),
        detector=TwoStage(ROI_METHODS[method], with_masks=True, class_agnostic=True, build=build),
        training=_training(lr=0.02, epochs=12),
        test_batch_size=16,
    )


def _training(lr: float, epochs: float) -> TrainSettings:
    return TrainSettings(
        optimizer=SGD(lr=lr, momentum=0.9, weight_decay=1e-4),
        schedule=Schedule(epochs=epochs, decay=Cosine(), warmup=Warmup(100)),
        batch_size=16,
        max_grad_norm=35.0,
        channels_last=True,
        num_workers=1,
        log_every=50,
        evaluate_every=100,
    )
