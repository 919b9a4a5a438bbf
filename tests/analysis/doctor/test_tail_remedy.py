"""The advice for rare categories follows docs/evidence/advice.md."""

from dataclasses import replace

import pytest

from equigrad.analysis.doctor.tail_remedy import tail_remedy
from equigrad.engine import AdamW
from equigrad.recipes import glyph_objects, own_data, tiny, two_stage
from equigrad.settings import to_json

MORE_SAMPLES = "add training samples of rare categories: no other loss was measured to help here"


def remedy(name, recipe):
    return tail_remedy({"recipe": name, "settings": to_json(recipe)})


@pytest.mark.parametrize(
    ("name", "recipe", "change"),
    [
        ("tiny:ce", tiny.ce(), "method.loss.prior_power=1"),
        ("tiny:bce", tiny.bce(), "method.loss.reweight_positive=true --set method.loss.reweight_negative=true"),
        ("own_data:classification", own_data.classification("ce"), "method=softmax_eql"),
        ("own_data:semantic_segmentation", own_data.semantic_segmentation("bce"), "method=softmax_eql"),
        ("own_data:detection", own_data.detection("ce"), "method=sigmoid_eql"),
    ],
)
def test_a_plain_loss_is_replaced_by_the_equalized_one_that_gained(name, recipe, change):
    assert remedy(name, recipe).endswith(f": equigrad train … --set {change}")


def test_a_recipe_with_a_loss_of_its_own_is_told_the_method():
    assert (
        remedy("two_stage:lvis_faster_rcnn_r50", two_stage.lvis_faster_rcnn_r50("ce"))
        == "train with the method sigmoid_eql"
    )


def test_a_loss_that_compensates_is_trained_longer():
    assert remedy("tiny:softmax_eql", tiny.softmax_eql()).startswith("train longer: equigrad train … --set training.")


def test_efl_is_for_focal_loss_with_sgd_and_without_repeated_images():
    run = glyph_objects.one_stage("fl")
    assert remedy("glyph_objects:one_stage", run) == (
        "train with efl: equigrad train … --set method.loss.focus_scale=8"
    )
    with_adamw = replace(run, training=replace(run.training, optimizer=AdamW(lr=1e-3)))
    repeats = "repeat images of rare categories: equigrad train … --set sampler=repeat_factor"
    assert remedy("glyph_objects:one_stage", with_adamw) == repeats
    assert remedy("glyph_objects:one_stage", glyph_objects.one_stage("qfl")) == repeats


@pytest.mark.parametrize(
    "recipe",
    [own_data.detection("fl"), replace(glyph_objects.one_stage("fl"), sampler="repeat_factor"), own_data.multi_label()],
    ids=["own detector", "repeated images", "several categories an image"],
)
def test_where_nothing_gained_only_more_samples_are_left(recipe):
    assert remedy("own_data:any", recipe) == MORE_SAMPLES


def test_settings_of_own_parts_get_the_general_advice():
    assert tail_remedy({"settings": {"type": "Mine"}}) == "train with an equalization loss"
