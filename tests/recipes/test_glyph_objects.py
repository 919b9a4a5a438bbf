from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from equigrad.engine.statistics_history import find_statistics
from equigrad.recipes.catalogue import load_recipe
from equigrad.recipes.dense_methods import DenseMethodName
from equigrad.recipes.glyph_objects import mask_rcnn, one_stage
from equigrad.recipes.roi_methods import ROI_METHODS, RoIMethodName
from equigrad.recipes.trained_categories import TrainedCategories

CATEGORIES = TrainedCategories(
    ("a", "b", "c"), ("frequent", "common", "rare"), np.array([120, 20, 2]), np.array([200, 20, 2])
)


@pytest.mark.parametrize("method", get_args(DenseMethodName))
def test_every_method_of_one_stage_detectors_watches_its_gradients(method):
    model = one_stage(method).model(CATEGORIES)
    (statistics,) = find_statistics(model).values()
    assert len(statistics.positive) == 3


@pytest.mark.parametrize("method", get_args(RoIMethodName))
def test_every_method_of_two_stage_detectors_has_masks_of_one_category(method):
    recipe = mask_rcnn(method)
    assert recipe.detector.with_masks
    assert replace(recipe.detector.method, bias_prior=None) == replace(ROI_METHODS[method], bias_prior=None)
    weights = recipe.model(CATEGORIES).state_dict()
    (masks,) = [weight for name, weight in weights.items() if name.endswith("mask_fcn_logits.weight")]
    assert masks.shape[0] == 1


@pytest.mark.parametrize(("method", "prior"), [("bce", 0.01), ("sigmoid_eql", 0.01), ("ce", 0.5), ("softmax_eql", 0.5)])
def test_sigmoids_start_at_a_prior_for_small_batches(method, prior):
    bias = mask_rcnn(method).model(CATEGORIES).roi_heads.box_predictor.cls_score.bias
    assert_close(bias.sigmoid(), torch.full_like(bias, prior))


def test_glyphs_are_never_mirrored():
    assert one_stage().views.flip == mask_rcnn().views.flip == 0


def test_a_recipe_of_glyphs_is_set_like_any_other():
    recipe = load_recipe("glyph_objects:one_stage", ["method=qfl", "data.num_classes=30", "sampler=repeat_factor"])
    assert (recipe.data.num_classes, recipe.sampler) == (30, "repeat_factor")
    assert recipe.detector.method.with_quality
