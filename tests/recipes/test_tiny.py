from dataclasses import replace

import numpy as np
import pytest
import torch

from equigrad.recipes import tiny
from equigrad.recipes.catalogue import all_recipes
from equigrad.recipes.methods.classification import METHODS
from equigrad.recipes.methods.segmentation import pixel_method
from equigrad.tasks.classification.data import GlyphImages
from equigrad.tasks.classification.recipe import ClassificationRecipe
from equigrad.tasks.classification.run import build_model

CLASSIFIERS = ("ce", "softmax_eql", "bce", "sigmoid_eql", "balanced_softmax")


def test_every_recipe_is_known_by_its_name():
    names = {name for name, _ in all_recipes() if name.startswith("tiny:")}
    assert names == {f"tiny:{name}" for name in (*CLASSIFIERS, "segmentation")}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_differ_in_the_method_of_their_name_alone(name):
    recipe, method = getattr(tiny, name)(), METHODS[name][1]
    assert isinstance(recipe, ClassificationRecipe)
    assert replace(recipe, method=tiny.ce().method) == tiny.ce()
    assert (recipe.method.loss, recipe.method.scores) == (method.loss, method.scores)


@pytest.mark.parametrize(("name", "prior"), [("bce", 0.01), ("sigmoid_eql", 0.01), ("ce", None)])
def test_sigmoids_of_forty_categories_start_higher_than_those_of_the_paper(name, prior):
    recipe = getattr(tiny, name)()
    assert recipe.method.bias_prior == prior
    model = build_model(recipe, np.full(40, 5))
    if prior is not None:
        assert METHODS[name][1].bias_prior == 0.001
        assert model.classifier.bias.sigmoid().tolist() == pytest.approx([prior] * 40)
    assert model.backbone(torch.zeros(1, 3, 32, 32, dtype=torch.uint8)).shape == (1, model.classifier.in_features)


def test_glyphs_are_forty_categories_a_hundred_times_as_many_of_the_first_as_of_the_last():
    assert tiny.ce().data == GlyphImages()
    assert (GlyphImages().num_classes, GlyphImages().imbalance_factor) == (40, 100.0)


def test_nothing_is_downloaded_or_read_by_other_processes():
    for recipe in (tiny.softmax_eql(), tiny.segmentation()):
        assert not hasattr(recipe.backbone, "weights")
        assert not any(hasattr(recipe.data, field) for field in ("root", "train", "images"))
        assert recipe.training.num_workers == 0


def test_the_segmenter_learns_with_softmax_eql_unless_asked_for_another_method():
    assert tiny.segmentation().method == pixel_method("softmax_eql")
    assert tiny.segmentation("bce") == replace(tiny.segmentation(), method=pixel_method("bce"))
