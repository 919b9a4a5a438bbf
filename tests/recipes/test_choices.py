"""Named choices of `own_data`, through the recipes that have them."""

import json
from dataclasses import replace
from typing import get_args

import pytest
import torch
from torch import nn

from equigrad.engine.optimizers import freeze, parameter_groups
from equigrad.recipes import own_data
from equigrad.recipes.catalogue import rows_of_recipe
from equigrad.recipes.choices import DetectorName, SegmenterName
from equigrad.settings import from_json, to_json
from equigrad.tasks import backbones
from equigrad.tasks.detection.detectors import RCNN, Fcos, ImprovedAtss, RetinaNet, Yolox, YoloxStar
from equigrad.tasks.methods import DenseMethod, RoIMethod
from equigrad.tasks.run_folder import Recipe
from equigrad.tasks.segmentation.heads import DeepLabV3Plus, PSPNet
from running import load

RECIPES = ("classification", "semantic_segmentation", "detection", "instance_segmentation")
BACKBONES = ("lite0", "resnet50", "resnet101", "timm:resnet18")
DETECTORS = {
    "atss": (ImprovedAtss, DenseMethod),
    "retinanet": (RetinaNet, DenseMethod),
    "fcos": (Fcos, DenseMethod),
    "yolox_s": (YoloxStar, DenseMethod),
    "faster_rcnn": (RCNN, RoIMethod),
    "mask_rcnn": (RCNN, RoIMethod),
}


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_takes_every_method_and_backbone_by_name(name):
    methods = [settings for (settings,) in rows_of_recipe(f"own_data:{name}")]
    assert len(methods) >= 6
    for setting in (*methods, *(f"backbone={backbone}" for backbone in BACKBONES), "image_size=96"):
        recipe = load(f"own_data:{name}", [setting])
        assert from_json(Recipe, json.loads(json.dumps(to_json(recipe)))) == recipe


@pytest.mark.parametrize("detector", get_args(DetectorName))
def test_each_detector_comes_with_its_methods(detector):
    kind, method = DETECTORS[detector]
    rows = rows_of_recipe("own_data:detection", [f"detector={detector}"])
    recipes = [load("own_data:detection", row) for row in rows]
    assert len(recipes) >= 5
    assert all(isinstance(recipe.method, method) for recipe in recipes)
    assert isinstance(own_data.detection(detector=detector).detector, kind)
    assert own_data.detection(detector=detector).with_masks == (detector == "mask_rcnn")


def test_yolox_is_the_published_one_with_its_own_loss():
    recipe = own_data.detection("sigmoid", "yolox_s")
    assert isinstance(recipe.detector, Yolox)
    assert recipe.detector.first_l1_epoch == recipe.preprocessing.num_strong_epochs
    assert recipe.training.schedule.epochs > recipe.preprocessing.num_strong_epochs
    assert recipe.training.optimizer.lr == pytest.approx(0.02 * 8 / 128)
    assert recipe.training.ema is not None


def test_the_head_of_a_segmenter_suits_its_backbone():
    heads = {name: own_data.semantic_segmentation(segmenter=name).head for name in get_args(SegmenterName)}
    assert {name: type(head) for name, head in heads.items()} == {"deeplabv3plus": DeepLabV3Plus, "pspnet": PSPNet}
    strides = {"lite0": (1, 6, 12, 18), "timm:resnet18": (1, 6, 12, 18), "resnet50": (1, 12, 24, 36)}
    for backbone, dilations in strides.items():
        assert own_data.semantic_segmentation(backbone=backbone).head.dilations == dilations


def test_the_image_size_reaches_what_the_model_sees():
    assert own_data.classification(image_size=96).data.size == 96
    data = own_data.semantic_segmentation(image_size=96).data
    assert (data.crop_size, data.base) == ((96, 96), (384, 96))
    assert own_data.detection(image_size=448).preprocessing.test_short == 448
    assert max(own_data.detection(image_size=448).preprocessing.short) == 512
    assert own_data.detection(detector="yolox_s", image_size=200).preprocessing.size == 192


def pyramid_of(recipe):
    """The feature pyramid of a recipe at its place in the detector, without weights."""
    with torch.device("meta"):
        model = nn.Module()
        name = "backbone" if isinstance(recipe.detector, RCNN) else "pyramid"
        model.add_module(name, backbones.without_weights(recipe.backbone).build())
    return model


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("detector", ["atss", "faster_rcnn"])
def test_a_frozen_backbone_leaves_the_pyramid_to_be_trained(backbone, detector):
    recipe = own_data.detection(detector=detector, backbone=backbone, frozen="backbone")
    model = pyramid_of(recipe)
    freeze(model, recipe.training.frozen)
    trained = {name.split(".")[1] for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert trained == {"fpn"}


@pytest.mark.parametrize("features", [True, False])
def test_what_is_pretrained_learns_more_slowly_than_the_pyramid(features):
    recipe = own_data.detection()
    model = pyramid_of(replace(recipe, backbone=replace(recipe.backbone, imagenet_features=features)))
    paths = {id(parameter): name.split(".")[1] for name, parameter in model.named_parameters()}
    fast, slow = set(), set()
    for group in parameter_groups(model, recipe.training.optimizer):
        part = fast if group["lr"] == recipe.training.optimizer.lr else slow
        part |= {paths[id(parameter)] for parameter in group["params"]}
    assert fast == {"fpn"}
    assert slow == ({"blocks", "head"} if features else {"blocks"})


@pytest.mark.parametrize(
    ("recipe", "settings", "message"),
    [
        ("detection", ["detector=yolox_s", "backbone=resnet50"], "yolox_s has a backbone of its own"),
        ("detection", ["detector=yolox_s", "frozen=backbone"], "starts from scratch"),
        (
            "detection",
            ["detector=atss", "method=ce"],
            "atss takes one of bce, fl, .*; ce goes with detector=faster_rcnn or mask_rcnn",
        ),
        ("detection", ["detector=faster_rcnn", "method=efl"], "efl goes with detector=atss or retinanet or fcos"),
        ("detection", ["detector=faster_rcn"], "expected none or one of atss, .*; did you mean faster_rcnn"),
        ("instance_segmentation", ["method=efl"], "expected one of ce, "),
        ("semantic_segmentation", ["segmenter=deeplab"], "did you mean deeplabv3plus"),
        ("classification", ["backbone=resnet5"], "expected one of lite0, resnet50, resnet101, timm:NAME; did you mean"),
        ("classification", ["frozen=all"], "expected one of auto, none, lower, backbone"),
        ("classification", ["frozen=backbone", "method=dive"], "teacher"),
        ("classification", ["image_size=big"], "expected a whole number"),
    ],
)
def test_what_does_not_go_together_is_named_in_one_line(recipe, settings, message):
    with pytest.raises(ValueError, match=message) as caught:
        load(f"own_data:{recipe}", settings)
    assert "\n" not in str(caught.value)
