import shutil
from dataclasses import replace

import numpy as np
import pytest

from detection_on_disk import annotation, coco, image, write_json, write_pictures
from engine.toy import assert_identical, read_metrics
from equigrad.engine import Schedule, load_checkpoint
from equigrad.engine.checkpoint import checkpoint_files
from equigrad.engine.optimizers import build_optimizer
from equigrad.recipes.catalogue import rows_of_recipe
from equigrad.recipes.tables import TABLES
from equigrad.tasks.backbones import SmallPyramid
from equigrad.tasks.detection.data import CocoFiles
from equigrad.tasks.losses import CategoryCounts
from running import load, train

COUNTS = CategoryCounts(np.array([9, 3, 1]), np.array([9, 3, 1]))
PYRAMID = SmallPyramid(width=8, num_channels=16, strides=(8, 16, 32))


def model_of(recipe):
    return recipe.detector.build(PYRAMID.build(), recipe.method, COUNTS)


@pytest.mark.parametrize("name", ["yolox:lvis_small", "yolox:lvis_medium"])
def test_a_recipe_stands_for_every_row_of_its_table(name):
    recipes = [load(name, settings) for settings in rows_of_recipe(name)]
    (table,) = {recipe.table for recipe in recipes}
    assert [recipe.row for recipe in recipes] == list(TABLES[table]) == ["Sigmoid", "FL", "EFL", "QFL", "EQFL"]


def test_training_is_that_of_yolox_from_scratch():
    recipe = load("yolox:lvis_medium")
    training, schedule = recipe.training, recipe.training.schedule
    assert (training.batch_size, training.ema.decay, training.ema.ramp) == (128, 0.9998, 2000)
    assert (training.optimizer.momentum, training.optimizer.nesterov, training.optimizer.weight_decay) == (
        *(0.9, True, 5e-4),
    )
    factors = [schedule.factor(100 * epoch, 100, 30_000) for epoch in (0, 2.5, 5, 145, 285, 299)]
    assert factors == pytest.approx([0, 0.25, 1, 0.525, 0.05, 0.05])
    mosaics = recipe.preprocessing
    assert (mosaics.size, mosaics.sizes[0], mosaics.sizes[-1]) == (640, 480, 800)
    assert (recipe.sampler, mosaics.mixup, mosaics.num_strong_epochs) == ("repeat_factor", True, 285)
    assert recipe.backbone.build().num_channels == 192


def test_the_authors_yolox_has_half_the_learning_rate_and_l1_at_the_end():
    sigmoid, star = (load("yolox:lvis_small", [f"method={name}", "epochs=40"]) for name in ("sigmoid", "efl"))
    assert (sigmoid.training.optimizer.lr, star.training.optimizer.lr) == (0.02, 0.04)
    assert (sigmoid.training.schedule.epochs, sigmoid.preprocessing.num_strong_epochs) == (40, 25)
    model, star_model = (model_of(recipe) for recipe in (sigmoid, star))
    assert (model.box_losses["l1"].first_epoch, star_model.box_losses["l1"].first_epoch) == (25, 0)
    assert (model.classifies_background, star_model.classifies_background) == (False, True)
    assert star_model.classification_loss.focus_scale == 4


@pytest.mark.parametrize(("method", "decayed"), [("sigmoid", set()), ("eqfl", {"logits.bias"})])
def test_weight_decay_spares_norms_and_biases_but_those_of_the_classifiers_of_yolox_star(method, decayed):
    recipe = load("yolox:lvis_small", [f"method={method}"])
    model = model_of(recipe)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    found = set()
    for group in build_optimizer(model, recipe.training.optimizer).param_groups:
        for parameter in group["params"]:
            if parameter.dim() == 1 and group["weight_decay"] > 0:
                found.add(".".join(names[id(parameter)].split(".")[-2:]))
    assert found == decayed


@pytest.fixture
def small_yolox(tmp_path):
    """YOLOX with 6 small images: three steps with mosaics, then three without and with L1."""
    content = coco(
        images=[image(number, height=48, width=64) for number in range(1, 7)],
        annotations=[annotation(number, image_id=number, box=(4, 6, 30, 36), area=1080.0) for number in range(1, 7)],
    )
    annotations = write_json(tmp_path / "train.json", content)
    recipe = load("yolox:lvis_small", ["method=sigmoid", "epochs=16"])
    training = replace(
        recipe.training,
        schedule=Schedule(epochs=2),
        batch_size=2,
        num_workers=0,
        log_every=1,
        checkpoint_every=1,
        keep_checkpoints=9,
    )
    data = CocoFiles(annotations, annotations, write_pictures(tmp_path, content))
    return replace(
        recipe, data=data, preprocessing=recipe.preprocessing.at_size(64), backbone=PYRAMID, training=training
    )


def test_l1_begins_with_the_plain_images_and_a_resumed_run_ends_bit_identical(small_yolox, tmp_path):
    folder, resumed = tmp_path / "run", tmp_path / "resumed"
    train(small_yolox, folder)
    assert ["l1" in line["losses"] for line in read_metrics(folder)] == [False] * 3 + [True] * 3
    shutil.copytree(folder, resumed)
    for file in checkpoint_files(resumed)[4:]:  # as if it had been killed in the second epoch
        file.unlink()
    train(small_yolox, resumed, resume=True)
    end, expected = (load_checkpoint(checkpoint_files(each)[-1]) for each in (resumed, folder))
    assert end["step"] == 6
    for part in ("model", "optimizer", "ema", "ranks"):
        assert_identical(end[part], expected[part])
