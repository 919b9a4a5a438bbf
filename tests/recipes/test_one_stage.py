import numpy as np
import pytest
import torch
from torch.testing import assert_close

from equigrad.recipes.catalogue import all_recipes, rows_of_recipe
from equigrad.recipes.tables import TABLES
from equigrad.tasks.losses import CategoryCounts
from models.small_detectors import TinyPyramid
from running import load

RECIPES = [name for name, _ in all_recipes() if name.startswith("one_stage:")]
COUNTS = CategoryCounts(np.array([9, 3, 1]), np.array([9, 3, 1]))


def loss_of(name, method):
    return load(f"one_stage:{name}", [f"method={method}"]).method.loss.build(COUNTS)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_stands_for_every_row_of_its_table(name):
    recipes = [load(name, settings) for settings in rows_of_recipe(name)]
    (table,) = {recipe.table for recipe in recipes}
    assert [recipe.row for recipe in recipes] == list(TABLES[table])


def test_every_published_table_has_a_recipe():
    starts = ("ablation_study_components", "s_effect", "one_stage_with_efl", "oid_results", "coco_results")
    published = {name for name in TABLES if name.startswith(starts) or name.endswith("one-stage)")}
    published = {name for name in published if not name.endswith("two-stage)")}
    assert {load(name).table for name in RECIPES} == published
    assert len(published) == 11


@pytest.mark.parametrize("name", ["lvis_r50", "lvis_fcos", "coco"])
def test_training_is_2x_with_a_long_warm_up_and_clipped_gradients(name):
    recipe = load(f"one_stage:{name}")
    training, schedule = recipe.training, recipe.training.schedule
    assert (training.batch_size, training.max_grad_norm, schedule.epochs) == (16, 35.0, 24)
    assert (training.optimizer.lr, training.optimizer.momentum, training.optimizer.weight_decay) == (0.02, 0.9, 1e-4)
    factors = [schedule.factor(1000 * epoch, 1000, 24_000) for epoch in (0, 0.5, 1, 15, 16, 22)]
    assert factors == pytest.approx([0.001, 0.5005, 1, 1, 0.1, 0.01])
    assert (recipe.preprocessing.short, recipe.preprocessing.long) == ((640, 672, 704, 736, 768, 800), 1333)
    assert (recipe.sampler, recipe.repeat_threshold) == ("random" if name == "coco" else "repeat_factor", 0.001)


def test_openimages_is_trained_as_released():
    recipe = load("one_stage:openimages_r101", ["method=efl"])
    schedule = recipe.training.schedule
    assert (recipe.sampler, recipe.preprocessing.short, recipe.training.max_grad_norm) == ("random", (800,), 35.0)
    factors = [schedule.factor(step, 10_000, 180_000) for step in (0, 500, 119_999, 120_000, 160_000)]
    assert factors == pytest.approx([0.001, 1, 1, 0.1, 0.01])
    assert schedule.total_steps(10_000) == 180_000


def test_rows_differ_in_their_losses():
    assert [loss_of("focus_scales", f"s{scale}").focus_scale for scale in (0, 1, 2, 4, 8, 12)] == [0, 1, 2, 4, 8, 12]
    assert [loss_of("coco", method).focus_scale for method in ("fl", "s2", "s4", "s8")] == [0, 2, 4, 8]
    assert type(loss_of("lvis_paa", "fl_eql")).__name__ == "FocalEqualizationLoss"
    components = [loss_of("components", method) for method in ("wf", "ff", "wf_ff")]
    assert [(loss.focusing, loss.weighting) for loss in components] == [(False, True), (True, False), (True, True)]
    assert loss_of("components", "none").focus_scale == loss_of("lvis_r50", "retinanet").focus_scale == 0


@pytest.mark.parametrize(
    ("name", "method", "extra", "prior", "num_anchors", "assigner"),
    [
        ("lvis_r50", "retinanet", ("c5", False), 0.01, 9, "MaxIoUAssigner"),
        ("lvis_r50", "baseline", ("lateral", False), 0.001, 2, "ATSSAssigner"),
        ("lvis_fcos", "fl", ("p5", True), 0.01, 1, "CentreAssigner"),
        ("lvis_paa", "fl", ("p5", False), 0.01, 1, "CostAssigner"),
        ("lvis_atss", "efl", ("p5", False), 0.01, 1, "ATSSAssigner"),
        ("openimages_r50", "efl", ("lateral", False), 0.001, 2, "ATSSAssigner"),
    ],
)
def test_detectors_are_built_as_published(name, method, extra, prior, num_anchors, assigner):
    recipe = load(f"one_stage:{name}", [f"method={method}"])
    assert (recipe.backbone.extra, recipe.backbone.extra_relu) == extra
    model = recipe.detector.build(TinyPyramid(strides=(8, 16, 32, 64, 128)), recipe.method, COUNTS)
    assert model.grid.num_anchors == num_anchors
    assert_close(model.head.logits.bias.sigmoid(), torch.full((3 * num_anchors,), prior))
    assert type(model.assigner).__name__ == assigner


def test_missing_files_are_named_with_what_to_set():
    recipe = load("one_stage:lvis_r50", ["data.train=nowhere.json"])
    with pytest.raises(FileNotFoundError, match=r"nowhere.json: no such file or folder; .* --set data.train="):
        recipe.data.load(with_masks=recipe.with_masks)
