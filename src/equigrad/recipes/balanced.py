"""Balanced data with the plain losses of the paper's long-tailed recipes: what its figure `grad_ob` compares with.

equigrad train balanced:imagenet_resnet50 --set data.train=imagenet/train --set data.test=imagenet/val
"""

from dataclasses import replace
from pathlib import Path

from equigrad.recipes.detection_benchmarks import COCO
from equigrad.recipes.image_classification import imagenet_lt_resnet50
from equigrad.recipes.methods.classification import MethodName
from equigrad.recipes.two_stage import ComparedName, lvis_mask_rcnn_r50
from equigrad.tasks.classification.data import OwnImages
from equigrad.tasks.classification.recipe import ClassificationRecipe
from equigrad.tasks.detection.recipe import DetectionRecipe


def imagenet_resnet50(method: MethodName = "ce") -> ClassificationRecipe:
    """ImageNet, ResNet-50 from scratch, 90 epochs; folders of images by category."""
    data = OwnImages(Path("imagenet/train"), Path("imagenet/val"))
    return replace(imagenet_lt_resnet50(method), data=data, table="", row="")


def coco_mask_rcnn_r50(method: ComparedName = "ce") -> DetectionRecipe:
    """COCO, Mask R-CNN on ResNet-50, 2x."""
    return replace(lvis_mask_rcnn_r50(method), data=COCO, table="", row="")
