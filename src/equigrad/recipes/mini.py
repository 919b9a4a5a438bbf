"""Any row of the paper's tables on glyphs, in at most two minutes of one core.

The method of a row stays as it is: loss, scores, sampler, second stage, and the kind of detector or segmenter. Data,
backbone and length become small, so that rows which differ only in depth, length or size of the data are the same.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from equigrad.engine import SGD, Cosine, Schedule, TrainSettings, Warmup
from equigrad.models.detection.two_stage.roi_sampling import RoISampler
from equigrad.recipes.methods.two_stage import with_prior
from equigrad.tasks.backbones import SmallConv, SmallPyramid, SmallSegmentationEncoder
from equigrad.tasks.classification.data import GlyphImages, PublishedImages
from equigrad.tasks.classification.recipe import ClassificationRecipe
from equigrad.tasks.detection.data import CocoFiles, DetectionSource, GlyphObjects
from equigrad.tasks.detection.detectors import RCNN, OneStageDetector, Yolox
from equigrad.tasks.detection.preprocessing import ShorterSide
from equigrad.tasks.detection.recipe import DetectionRecipe
from equigrad.tasks.losses import GradientBlocking
from equigrad.tasks.methods import DenseMethod, RoIMethod
from equigrad.tasks.run_folder import Recipe
from equigrad.tasks.segmentation.glyph_scenes import GlyphScenes
from equigrad.tasks.segmentation.heads import DeepLabV3Plus, PSPNet
from equigrad.tasks.segmentation.recipe import SegmentationRecipe

# The paper's 0.001 is for 1,203 categories; a few hundred steps of small batches do not make up for it.
_PRIOR = 0.01

# Long tails of the same kind as the real ones: few-shot categories are a third of ImageNet-LT and Places-LT, whose tail
# is longer, and most of iNaturalist's.
# As hard as drawings get: with easier ones all methods have nearly all of the many-shot images right.
_IMAGENET_LT = GlyphImages(num_classes=80, difficulty=1.0)
_IMAGES = {
    "imagenet_lt": _IMAGENET_LT,
    "places_lt": replace(_IMAGENET_LT, num_classes=72, max_count=400, imbalance_factor=200.0, seed=1),
    "inaturalist18": replace(_IMAGENET_LT, num_classes=120, max_count=120, imbalance_factor=40.0, seed=2),
}
_BALANCED_IMAGES = replace(_IMAGENET_LT, max_count=60, imbalance_factor=1.0)
_LVIS = GlyphObjects(Path("data/mini/lvis"), num_classes=60, max_count=300, test_count=6, image_size=64)
_COCO = replace(
    _LVIS, root=Path("data/mini/coco"), num_classes=30, max_count=100, profile="exponential", imbalance_factor=1.0
)
_OPENIMAGES = replace(_LVIS, root=Path("data/mini/openimages"), profile="exponential", imbalance_factor=100.0, seed=1)
_ADE20K = GlyphScenes(num_glyphs=14, max_count=150, imbalance_factor=10.0)
_ADE20K_LT = replace(_ADE20K, imbalance_factor=50.0)

# Categories with up to 100 of LVIS's 100,170 images are repeated; here these are 100 of about 2,000.
_REPEAT_THRESHOLD = 0.05
# Half of the categories, as the published threshold blocks half of those of OpenImages.
_BLOCKED_INSTANCES = 30.0


def mini(recipe: Recipe) -> Recipe:
    """The recipe of a row, small."""
    shrink: Mapping[type[Any], Callable[[Any], Recipe]] = {
        ClassificationRecipe: _classification,
        DetectionRecipe: _detection,
        SegmentationRecipe: _segmentation,
    }
    return shrink[type(recipe)](recipe)


def _classification(recipe: ClassificationRecipe) -> ClassificationRecipe:
    method = recipe.method if recipe.method.bias_prior is None else replace(recipe.method, bias_prior=_PRIOR)
    optimizer = SGD(lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
    training = _training(optimizer, steps=200 if method.second_stage else 600, warmup=40, batch_size=64)
    data = _IMAGES[recipe.data.benchmark] if isinstance(recipe.data, PublishedImages) else _BALANCED_IMAGES
    return replace(recipe, data=data, backbone=SmallConv(width=16), method=method, training=training)


def _segmentation(recipe: SegmentationRecipe) -> SegmentationRecipe:
    deeplab = DeepLabV3Plus(channels=48, low_channels=16, dilations=(1, 2, 4), separable=False)
    optimizer = SGD(lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4)
    training = _training(optimizer, steps=500, warmup=10, batch_size=16)
    return replace(
        recipe,
        data=_ADE20K if getattr(recipe.data, "train_list", None) is None else _ADE20K_LT,
        backbone=SmallSegmentationEncoder(),
        head=deeplab if isinstance(recipe.head, DeepLabV3Plus) else PSPNet(channels=48),
        training=replace(training, max_grad_norm=10.0),
        auxiliary="none",
    )


def _detection(recipe: DetectionRecipe) -> DetectionRecipe:
    data = _objects(recipe.data)
    # No flips: a mirrored glyph is another character.
    small = replace(
        recipe,
        data=data,
        preprocessing=ShorterSide(short=(data.image_size,), test_short=data.image_size, long=data.image_size, flip=0.0),
        repeat_threshold=_REPEAT_THRESHOLD,
        check_images=None,
        test_batch_size=16,
    )
    return _two_stage(small) if isinstance(recipe.detector, RCNN) else _one_stage(small, recipe.detector)


def _objects(data: DetectionSource) -> GlyphObjects:
    if isinstance(data, CocoFiles):
        return _COCO if data.benchmark == "coco" else _LVIS
    return _OPENIMAGES


def _one_stage(recipe: DetectionRecipe, detector: OneStageDetector) -> DetectionRecipe:
    small = replace(detector, prior=_PRIOR)
    if isinstance(small, Yolox):
        small = replace(small, first_l1_epoch=1000)  # the last twentieth of a schedule is too short here to matter
    training = _training(SGD(lr=0.05, momentum=0.9, weight_decay=1e-4), steps=500, warmup=100, batch_size=16)
    return replace(
        recipe,
        # Glyphs have 16 pixels, and anchors 6 to 8 strides: at a stride of 8 the boxes of most trainings never overlap.
        backbone=SmallPyramid(width=16, num_channels=32, strides=(4, 8, 16)),
        detector=small,
        training=replace(training, max_grad_norm=5.0),
    )


def _two_stage(recipe: DetectionRecipe) -> DetectionRecipe:
    assert isinstance(recipe.detector, RCNN)
    detector = replace(
        recipe.detector,
        with_masks=False,  # of strokes two pixels wide: a third of the time, and no overlap
        class_agnostic=True,
        num_features=256,
        sampling_ratio=1,  # most bins are smaller than a cell of the map
        num_proposals=100,
        rois=RoISampler(32),
    )
    steps = 150 if recipe.second_stage else 450
    training = _training(SGD(lr=0.05, momentum=0.9, weight_decay=1e-4), steps=steps, warmup=100, batch_size=16)
    return replace(
        recipe,
        backbone=SmallPyramid(width=16, num_channels=32, strides=(4, 8, 16, 32)),
        detector=detector,
        method=_roi_method(recipe.method),
        training=replace(training, max_grad_norm=5.0),
    )


def _roi_method(method: DenseMethod | RoIMethod) -> RoIMethod:
    assert isinstance(method, RoIMethod)
    method = with_prior(method, _PRIOR)
    if isinstance(method.loss, GradientBlocking) and method.loss.count_by == "instances":
        return replace(method, loss=replace(method.loss, threshold=_BLOCKED_INSTANCES))
    return method


def _training(optimizer: SGD, *, steps: int, warmup: int, batch_size: int) -> TrainSettings:
    """In steps: a sampler that repeats images makes epochs longer."""
    return TrainSettings(
        optimizer=optimizer,
        schedule=Schedule(steps=steps, decay=Cosine(), warmup=Warmup(warmup)),
        batch_size=batch_size,
        channels_last=True,
        num_workers=0,
        evaluate_every=None,
    )
