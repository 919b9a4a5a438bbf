"""Photographs on a CPU: the improved baseline on EfficientNet-Lite0 from ImageNet.

    equigrad train small_detection:plantdoc --set method=efl --set data.train=plantdoc/instances_train.json \
        --set data.test=plantdoc/instances_test.json --set data.images=plantdoc/images.zip

These are the paths that it takes by itself, below the folder in which it is started; images may also be in a folder.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path

from equigrad.engine import SGD, Cosine, Schedule, TrainSettings, Warmup
from equigrad.models.backbones.efficientnet_lite import PACKAGE
from equigrad.models.detection.one_stage.atss import improved_atss
from equigrad.models.detection.pyramids.lite_fpn import LiteFPN
from equigrad.recipes.backbones import Backbone
from equigrad.recipes.dense_methods import DENSE_METHODS, DenseMethodName, OneStage
from equigrad.recipes.detection import DetectionRecipe
from equigrad.recipes.detection_data import CocoFiles
from equigrad.recipes.detection_views import ShorterSide


def plantdoc(method: DenseMethodName = "efl") -> DetectionRecipe:
    """PlantDoc: 29 kinds of leaves, 814 boxes of the most frequent down to 2 of the rarest."""
    root = Path("plantdoc")
    return DetectionRecipe(
        data=CocoFiles(root / "instances_train.json", root / "instances_test.json", root / "images.zip"),
        views=ShorterSide(short=(160, 176, 192, 208), test_short=192, long=256),
        backbone=Backbone(partial(LiteFPN, num_channels=64, num_frozen=5), PACKAGE),
        detector=OneStage(improved_atss, DENSE_METHODS[method]),
        training=TrainSettings(
            optimizer=SGD(lr=0.02, momentum=0.9, weight_decay=1e-4),
            schedule=Schedule(epochs=4, decay=Cosine(), warmup=Warmup(100)),
            batch_size=8,
            max_grad_norm=35.0,
            channels_last=True,
            num_workers=1,
            log_every=50,
            evaluate_every=100,
        ),
    )


def coco228(method: DenseMethodName = "efl") -> DetectionRecipe:
    """COCO, 128 images to train on and 100 to test: too few for a meaningful AP, enough to see every part work."""
    root = Path("coco228")
    recipe = plantdoc(method)
    return replace(
        recipe,
        data=CocoFiles(root / "instances_train128.json", root / "instances_val100.json", root / "images.zip"),
        views=ShorterSide(short=(256, 288, 320), test_short=320, long=480),
        training=replace(recipe.training, schedule=replace(recipe.training.schedule, epochs=20)),
    )
