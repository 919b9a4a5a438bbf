import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from equigrad.engine import SGD, Cosine, Schedule, TrainSettings, Warmup
from equigrad.settings import from_json, override, to_json
from equigrad.tasks.backbones import ResNet
from equigrad.tasks.classification.data import PublishedImages
from equigrad.tasks.classification.recipe import ClassificationRecipe
from equigrad.tasks.losses import Distillation, SoftmaxEql
from equigrad.tasks.methods import LearnScales, Method
from equigrad.tasks.run_folder import Recipe
from equigrad.tasks.scores import AdjustedSoftmax

RECIPE = ClassificationRecipe(
    data=PublishedImages("places_lt", root=Path("places"), lists=Path("lists"), size=96, color_jitter=0.1),
    backbone=ResNet("resnet152", "mine.pth", "inaturalist18"),
    method=Method(
        SoftmaxEql(prior_power=0.5),
        scores=AdjustedSoftmax(0.5),
        bias_prior=0.02,
        cosine_temperature=16.0,
        second_stage=LearnScales("frozen"),
        sampler="class_balanced",
    ),
    training=TrainSettings(
        SGD(lr=0.3),
        Schedule(steps=7, decay=Cosine(0.1), warmup=Warmup(3)),
        batch_size=5,
        frozen=("backbone",),
        seed=9,
    ),
    precision="bf16",
    device="cpu",
    test_batch_size=32,
    shot_groups="paper",
    feature_cache=Path("features"),
    init=Path("runs/first"),
    table="a table",
    row="a row",
)


def test_a_value_in_every_field_that_is_not_the_default_survives_json():
    for field in fields(RECIPE):
        assert getattr(RECIPE, field.name) != field.default
    assert from_json(Recipe, json.loads(json.dumps(to_json(RECIPE)))) == RECIPE


def test_a_loss_within_a_loss_survives_json():
    distillation = Distillation(SoftmaxEql(prior_power=0.5), weight=0.2, temperature=2.0, power=0.7)
    recipe = replace(RECIPE, method=replace(RECIPE.method, loss=distillation), feature_cache=None)
    assert from_json(Recipe, json.loads(json.dumps(to_json(recipe)))) == recipe


def test_a_recipe_runs_in_single_precision_on_what_there_is_and_is_no_row_unless_it_says_so():
    plain = ClassificationRecipe(RECIPE.data, RECIPE.backbone, RECIPE.method, RECIPE.training)
    assert (plain.precision, plain.device, plain.init, plain.table, plain.row) == ("32", "auto", None, "", "")


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("precision=8", "expected one of 32, bf16, fp16"),
        ("device=tpu", "expected one of auto, cpu, cuda, mps"),
        ("backbone=CspDarknet", "expected SmallConv or Lite0 or ResNet"),
    ],
)
def test_what_a_classifier_cannot_have_is_refused(assignment, message):
    with pytest.raises(ValueError, match=message):
        override(RECIPE, [assignment])
