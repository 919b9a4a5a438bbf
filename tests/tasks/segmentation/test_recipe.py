import json
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from equigrad.engine import SGD, Poly, Schedule, TrainSettings
from equigrad.settings import from_json, override, to_json
from equigrad.tasks.backbones import DilatedResNet
from equigrad.tasks.losses import Seesaw
from equigrad.tasks.methods import Method
from equigrad.tasks.run_folder import Recipe
from equigrad.tasks.segmentation.data import LabelFolders
from equigrad.tasks.segmentation.heads import PSPNet
from equigrad.tasks.segmentation.recipe import AuxiliaryLoss, LossResolution, SegmentationRecipe

RECIPE = SegmentationRecipe(
    data=LabelFolders(
        names=Path("names.csv"),
        test_images=Path("test/images"),
        test_labels=Path("test/labels"),
        ignored=(0, 254),
        crop_size=(96, 64),
        base=None,
        scale=(0.75, 1.5),
        group_by="index",
    ),
    backbone=DilatedResNet(101, "mine.pth", deep_stem=False),
    head=PSPNet(channels=64, grids=(1, 4), dropout=0.2),
    method=Method(Seesaw(mitigation=0.3)),
    training=TrainSettings(SGD(lr=0.3), Schedule(steps=7, decay=Poly(0.5)), batch_size=5, frozen=("backbone.conv1",)),
    auxiliary="method",
    loss_at="tiles",
    window=300,
    test_batch_size=2,
    keeps_label_maps=True,
    precision="fp16",
    device="cuda",
    init=Path("runs/first"),
    table="a table",
    row="a row",
)


def test_a_value_in_every_field_that_is_not_the_default_survives_json():
    for field in fields(RECIPE):
        assert getattr(RECIPE, field.name) != field.default
    assert from_json(Recipe, json.loads(json.dumps(to_json(RECIPE)))) == RECIPE


def test_a_recipe_sees_whole_images_with_a_plain_auxiliary_head_and_keeps_no_maps_unless_it_says_so():
    plain = SegmentationRecipe(RECIPE.data, RECIPE.backbone, RECIPE.head, RECIPE.method, RECIPE.training)
    assert (plain.auxiliary, plain.loss_at, plain.window, plain.keeps_label_maps) == ("ce", "labels", None, False)


@pytest.mark.parametrize(("field", "kind"), [("auxiliary", AuxiliaryLoss), ("loss_at", LossResolution)])
def test_every_word_of_a_choice_can_be_set_and_no_other(field, kind):
    for word in get_args(kind):
        assert getattr(override(RECIPE, [f"{field}={word}"]), field) == word
    with pytest.raises(ValueError, match=f"--set {field}=other: expected one of {', '.join(get_args(kind))}"):
        override(RECIPE, [f"{field}=other"])


def test_the_head_is_changed_by_its_name_and_keeps_the_fields_in_common():
    changed = override(RECIPE, ["head=DeepLabV3Plus", "head.low_channels=24"])
    assert (type(changed.head).__name__, changed.head.low_channels) == ("DeepLabV3Plus", 24)
    assert (changed.head.channels, changed.head.dropout) == (64, 0.2)
