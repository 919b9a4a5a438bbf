from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from equigrad.recipes.glyph_objects import mask_rcnn, one_stage
from equigrad.recipes.methods.one_stage import DenseMethodName
from equigrad.recipes.methods.two_stage import METHODS, RoIMethodName
from equigrad.statistics import find_statistics
from equigrad.tasks.categories import TrainedCategories
from equigrad.tasks.detection.run import build_model
from equigrad.tasks.methods import LinearClassifier
from running import load

CATEGORIES = TrainedCategories(
    ("a", "b", "c"), ("frequent", "common", "rare"), np.array([120, 20, 2]), np.array([200, 20, 2])
)


@pytest.mark.parametrize("method", get_args(DenseMethodName))
def test_every_method_of_one_stage_detectors_watches_its_gradients(method):
    model = build_model(one_stage(method), CATEGORIES)
    (statistics,) = find_statistics(model).values()
    assert len(statistics.positive) == 3


@pytest.mark.parametrize("method", get_args(RoIMethodName))
def test_every_method_of_two_stage_detectors_has_masks_of_one_category(method):
    recipe = mask_rcnn(method)
    assert recipe.detector.with_masks
    without_prior = [replace(each, classifier=LinearClassifier()) for each in (recipe.method, METHODS[method])]
    assert without_prior[0] == without_prior[1]
    weights = build_model(recipe, CATEGORIES).state_dict()
    (masks,) = [weight for name, weight in weights.items() if name.endswith("mask_fcn_logits.weight")]
    assert masks.shape[0] == 1


@pytest.mark.parametrize(("method", "prior"), [("bce", 0.01), ("sigmoid_eql", 0.01), ("ce", 0.5), ("softmax_eql", 0.5)])
def test_sigmoids_start_at_a_prior_for_small_batches(method, prior):
    bias = build_model(mask_rcnn(method), CATEGORIES).roi_heads.box_predictor.cls_score.bias
    assert_close(bias.sigmoid(), torch.full_like(bias, prior))


def test_glyphs_are_never_mirrored():
    assert one_stage().preprocessing.flip == mask_rcnn().preprocessing.flip == 0


def test_a_recipe_of_glyphs_is_set_like_any_other():
    recipe = load("glyph_objects:one_stage", ["method=qfl", "data.num_classes=30", "sampler=repeat_factor"])
    assert (recipe.data.num_classes, recipe.sampler) == (30, "repeat_factor")
    assert recipe.method.with_quality
