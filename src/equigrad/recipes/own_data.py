"""Train on your own data from the command line.

equigrad train own_data:classification --set data.train=photos/train --set data.test=photos/test
equigrad train own_data:multi_label --set data.train=train.csv --set data.test=test.csv --set data.root=photos
equigrad train own_data:semantic_segmentation --set data.images=photos --set data.labels=maps --set data.names=names.txt
equigrad train own_data:detection --set data.train=train.json --set data.test=val.json --set data.images=photos
equigrad train own_data:instance_segmentation --set data.train=train.json --set data.images=photos --set data.test=none

The defaults end within 20 minutes on two cores for 500 photographs; docs/own_data.md has what they reach.
"""

from dataclasses import replace
from pathlib import Path
from typing import cast

from equigrad.engine import SGD, AdamW, Cosine, EnoughSteps, ParameterRule, Poly, Schedule, TrainSettings, Warmup
from equigrad.recipes import choices, yolox
from equigrad.recipes.choices import (
    DetectionMethodName,
    DetectorName,
    Frozen,
    FrozenInClassifiers,
    FrozenInDetectors,
    SegmenterName,
)
from equigrad.recipes.methods import classification as image_methods, multi_label as multi_label_methods, two_stage
from equigrad.recipes.methods.multi_label import MultiLabelMethodName
from equigrad.recipes.methods.segmentation import PixelMethodName, pixel_method
from equigrad.recipes.yolox import YoloxName
from equigrad.tasks.backbones import DilatedLite0
from equigrad.tasks.classification.data import ManyLabels, OwnImages
from equigrad.tasks.classification.recipe import ClassificationRecipe
from equigrad.tasks.detection.data import CocoFiles
from equigrad.tasks.detection.detectors import RCNN
from equigrad.tasks.detection.prediction import ShownObjects
from equigrad.tasks.detection.preprocessing import ShorterSide
from equigrad.tasks.detection.recipe import DetectionRecipe
from equigrad.tasks.methods import Method
from equigrad.tasks.segmentation.data import LabelFolders
from equigrad.tasks.segmentation.recipe import SegmentationRecipe

FEATURES = Path("runs", "features")
"""Folder of the features of frozen backbones, which runs share."""


def classification(
    method: image_methods.MethodName = "softmax_eql",
    backbone: str = "lite0",
    image_size: int = 224,
    frozen: FrozenInClassifiers = "auto",
) -> ClassificationRecipe:
    """Train a classifier on a folder of images per category or a list of `path label`; default: Softmax-EQL.

    Args:
        method: loss, with the scores, sampler or second stage that belong to it.
        backbone: lite0, resnet50, resnet101 or timm:NAME.
        image_size: side of the model's square input.
        frozen: "backbone" trains only the classifier, on features that are computed once and kept on disk: best for few
            photographs. "lower" freezes the layers up to stride 4. "none" trains everything: best with thousands of
            images, or images that are not photographs. "auto" is "backbone", or "none" if the backbone has no weights
            or the method distils.
    """
    _, chosen = image_methods.METHODS[method]
    return _classifier(OwnImages(size=choices.checked_size(image_size)), chosen, backbone, frozen)


def multi_label(
    method: MultiLabelMethodName = "bce",
    backbone: str = "lite0",
    image_size: int = 224,
    frozen: FrozenInClassifiers = "auto",
) -> ClassificationRecipe:
    """Train a multi-label classifier; default: BCE, because Sigmoid-EQL gained nothing there.

    Args:
        method: loss, with the scores, sampler or second stage that belong to it.
        backbone: lite0, resnet50, resnet101 or timm:NAME.
        image_size: side of the model's square input.
        frozen: "backbone" trains only the classifier, on features that are computed once and kept on disk: best for few
            photographs. "lower" freezes the layers up to stride 4. "none" trains everything: best with thousands of
            images, or images that are not photographs. "auto" is "backbone", or "none" if the backbone has no weights
            or the method distils.
    """
    return _classifier(
        ManyLabels(size=choices.checked_size(image_size)), multi_label_methods.METHODS[method], backbone, frozen
    )


def _classifier(
    data: OwnImages | ManyLabels, method: Method, backbone: str, frozen: FrozenInClassifiers
) -> ClassificationRecipe:
    network = choices.image_backbone(backbone)
    if frozen == "auto":
        has_weights = getattr(network, "weights", None) is not None
        frozen = "backbone" if has_weights and not method.distils else "none"
    training = TrainSettings(
        optimizer=SGD(lr=0.02, momentum=0.9, nesterov=True, weight_decay=1e-4, decay_norm_and_bias=False),
        schedule=Schedule(length=EnoughSteps(min_epochs=20, min_steps=300), decay=Cosine(), warmup=Warmup(100)),
        batch_size=32,
        frozen=choices.frozen_parts(frozen, network),
        channels_last=True,
        num_workers=2,
    )
    recipe = ClassificationRecipe(data, network, method, training)
    return _with_cached_features(recipe) if frozen == "backbone" else recipe


def _with_cached_features(recipe: ClassificationRecipe) -> ClassificationRecipe:
    """Only the classifier is trained: a higher learning rate, and steps that cost next to nothing."""
    training = replace(
        recipe.training,
        optimizer=SGD(lr=0.1, momentum=0.9, weight_decay=5e-4),
        schedule=Schedule(length=EnoughSteps(min_epochs=60, min_steps=900), decay=Cosine(), warmup=Warmup(20)),
        num_workers=0,
        evaluate_every=10,
    )
    return replace(recipe, training=training, feature_cache=FEATURES)


def semantic_segmentation(
    method: PixelMethodName = "softmax_eql",
    backbone: str = "lite0",
    segmenter: SegmenterName = "deeplabv3plus",
    image_size: int = 224,
    frozen: Frozen = "lower",
) -> SegmentationRecipe:
    """Train a segmenter on images, index PNGs and a file of names; default: DeepLabV3+ with Softmax-EQL.

    Args:
        method: loss, with the scores, sampler or second stage that belong to it.
        backbone: lite0, resnet50, resnet101 or timm:NAME.
        segmenter: the segmentation head.
        image_size: shorter side of resized images, and side of the training crops.
        frozen: "lower" freezes the layers up to stride 4 of lite0 and ResNets, "backbone" trains only the head.
    """
    encoder = choices.segmentation_backbone(backbone)
    size = choices.checked_size(image_size)
    lr = 0.1 if isinstance(encoder, DilatedLite0) else 0.005  # the paper's for half its batch
    return SegmentationRecipe(
        data=LabelFolders(crop_size=(size, size), base=(4 * size, size)),
        backbone=encoder,
        head=choices.segmentation_head(segmenter, encoder),
        method=pixel_method(method),
        training=TrainSettings(
            optimizer=SGD(lr=lr, momentum=0.9, nesterov=True, weight_decay=1e-4, decay_norm_and_bias=False),
            schedule=Schedule(length=EnoughSteps(min_epochs=16, min_steps=800), decay=Poly(), warmup=Warmup(50)),
            batch_size=8,
            frozen=choices.frozen_parts(frozen, encoder),
            max_grad_norm=10.0,
            channels_last=True,
            num_workers=2,
            log_every=50,
            evaluate_every=4,
        ),
        auxiliary="none",
    )


def detection(
    method: DetectionMethodName | None = None,
    detector: DetectorName | None = None,
    backbone: str | None = None,
    image_size: int = 224,
    frozen: FrozenInDetectors = "lower",
) -> DetectionRecipe:
    """Train a detector on a COCO or LVIS file and a folder of images; default: Faster R-CNN with Sigmoid-EQL.

    Args:
        method: loss, scores and classifier. Default: sigmoid_eql for faster_rcnn and mask_rcnn, qfl for yolox_s and fl
            for the others, where no equalization loss is known to gain.
        detector: faster_rcnn and mask_rcnn have two stages, the others one; mask_rcnn needs masks in the files. By
            default faster_rcnn, or atss for a method that only one-stage detectors have.
        backbone: lite0 (default), resnet50, resnet101 or timm:NAME. yolox_s has its own, trained from scratch.
        image_size: shorter side of test images; that of training images varies around it.
        frozen: "lower" freezes the first layers of lite0 and ResNets, "backbone" trains only the feature pyramid and
            the head.
    """
    detector = detector or choices.default_detector(method)
    chosen = choices.detector_choice(detector, backbone, method)
    is_two_stage = isinstance(chosen.detector, RCNN)
    recipe = DetectionRecipe(
        data=CocoFiles(),
        preprocessing=ShorterSide((176, 192, 208, 224, 240, 256), test_short=224, long=384).at_size(
            choices.checked_size(image_size)
        ),
        backbone=chosen.backbone,
        detector=chosen.detector,
        method=chosen.method,
        training=TrainSettings(
            # In a thousand steps AdamW takes new layers further than SGD, and changes the pretrained ones little.
            optimizer=AdamW(
                lr=5e-4 if is_two_stage else 1e-3,
                weight_decay=0.05,
                decay_norm_and_bias=False,
                rules=tuple(ParameterRule(part, lr=0.1) for part in chosen.pretrained_parts),
            ),
            # Detectors begin to recognise anything after some hundred steps, however few the images.
            schedule=Schedule(
                length=EnoughSteps(min_epochs=12, min_steps=1000), decay=Cosine(), warmup=Warmup(0.1, "share")
            ),
            batch_size=8,
            frozen=chosen.frozen_parts(frozen),
            max_grad_norm=35.0,
            channels_last=True,
            num_workers=2,
            log_every=50,
            evaluate_every=6,
        ),
        # As in the paper, whose one-stage detectors alone repeat images with rare categories.
        sampler="random" if is_two_stage else "repeat_factor",
        repeat_threshold=0.01,
        # Scores stay low in so short a training; chosen by F1 on images that were neither trained on nor tested.
        shown=ShownObjects(threshold=0.15),
    )
    return recipe if detector != "yolox_s" else _from_scratch(recipe, cast(YoloxName, method or "qfl"), image_size)


def _from_scratch(recipe: DetectionRecipe, name: YoloxName, image_size: int) -> DetectionRecipe:
    """YOLOX-S as it is published, with smaller images and batches, and a third of the epochs."""
    published = yolox.lvis_small(name, epochs=100)
    optimizer, share = published.training.optimizer, recipe.training.batch_size / published.training.batch_size
    training = replace(
        recipe.training,
        optimizer=replace(optimizer, lr=optimizer.lr * share),
        schedule=published.training.schedule,
        ema=published.training.ema,
        evaluate_every=20,
    )
    preprocessing = published.preprocessing.at_size(32 * round(image_size / 32))
    return replace(recipe, preprocessing=preprocessing, detector=published.detector, training=training)


def instance_segmentation(
    method: two_stage.RoIMethodName = "sigmoid_eql",
    backbone: str = "lite0",
    image_size: int = 224,
    frozen: FrozenInDetectors = "lower",
) -> DetectionRecipe:
    """Train Mask R-CNN on a COCO or LVIS file with masks and a folder of images; default: Sigmoid-EQL.

    Args:
        method: loss, with the scores, sampler or second stage that belong to it.
        backbone: lite0, resnet50, resnet101 or timm:NAME.
        image_size: shorter side of test images; that of training images varies around it.
        frozen: "lower" freezes the first layers of lite0 and ResNets, "backbone" trains only the feature pyramid and
            the heads.
    """
    return detection(method, "mask_rcnn", backbone, image_size, frozen)
