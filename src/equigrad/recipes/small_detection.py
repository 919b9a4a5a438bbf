"""Photographs on a CPU: the improved baseline on EfficientNet-Lite0 from ImageNet.

    equigrad train small_detection:plantdoc --set method=efl --set data.train=plantdoc/instances_train.json \
        --set data.test=plantdoc/instances_test.json --set data.images=plantdoc/images.zip

These are the paths that it takes by itself, below the folder in which it is started; images may also be in a folder.
"""

from dataclasses import replace
from pathlib import Path

from equigrad.engine import SGD, Cosine, Schedule, TrainSettings, Warmup
from equigrad.recipes.methods.one_stage import METHODS, DenseMethodName
from equigrad.tasks.backbones import Lite0Pyramid
from equigrad.tasks.detection.data import CocoFiles
from equigrad.tasks.detection.detectors import ImprovedAtss
from equigrad.tasks.detection.preprocessing import ShorterSide
from equigrad.tasks.detection.recipe import DetectionRecipe


def plantdoc(method: DenseMethodName = "efl") -> DetectionRecipe:
    """PlantDoc: 29 kinds of leaves, 814 boxes of the most frequent down to 2 of the rarest.

    The four epochs, 1,160 steps, took 30 CPU minutes with one thread, a test after each included (seed 0). AP:
    1.4, 4.0, 4.8, 5.4 (AP50 8.9). It still rises at the end. Longer trainings were not tried.
    """
    root = Path("plantdoc")
    return DetectionRecipe(
        data=CocoFiles(root / "instances_train.json", root / "instances_test.json", root / "images.zip"),
        preprocessing=ShorterSide(short=(160, 176, 192, 208), test_short=192, long=256),
        backbone=Lite0Pyramid(num_channels=64, num_frozen=5),
        detector=ImprovedAtss(),
        method=METHODS[method],
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
    """COCO, 128 images to train on and 100 to test: too few for a meaningful AP, enough to see every part work.

    The 20 epochs, 320 steps, took 31 CPU minutes with one thread, a test after each included (seed 0). AP is 0.2
    after 10 epochs, 0.4 after 12, and 0.2 to 0.4 from there to the end (0.3, AP50 1.0): a longer training is not worth
    its time.
    """
    root = Path("coco228")
    recipe = plantdoc(method)
    return replace(
        recipe,
        data=CocoFiles(root / "instances_train128.json", root / "instances_val100.json", root / "images.zip"),
        preprocessing=ShorterSide(short=(256, 288, 320), test_short=320, long=480),
        training=replace(recipe.training, schedule=replace(recipe.training.schedule, epochs=20)),
    )
