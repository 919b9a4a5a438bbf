from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch

from equigrad.engine import Poly
from equigrad.recipes.camvid import deeplabv3plus_lite0
from equigrad.recipes.methods.segmentation import PixelMethodName, pixel_method
from equigrad.tasks.backbones import without_weights
from equigrad.tasks.segmentation.run import build_model
from equigrad.tasks.smoke_test.generated_scenes import generated_scenes


def model_of(recipe, num_classes=31):
    return build_model(replace(recipe, backbone=without_weights(recipe.backbone)), np.arange(1, num_classes + 1))


@pytest.mark.parametrize("method", get_args(PixelMethodName))
def test_methods_differ_in_the_method_alone(method):
    recipe = deeplabv3plus_lite0(method)
    assert recipe == replace(deeplabv3plus_lite0(), method=pixel_method(method))


def test_the_default_is_cross_entropy_for_24_epochs_that_end_near_zero():
    recipe = deeplabv3plus_lite0()
    schedule = recipe.training.schedule
    assert recipe.method == pixel_method("ce")
    assert (schedule.epochs, type(schedule.decay)) == (24, Poly)
    total = schedule.total_steps(53)
    assert schedule.factor(total - 1, 53, total) < 0.01


def test_crops_are_192_wide_and_144_high(tmp_path):
    recipe = deeplabv3plus_lite0()
    data = replace(generated_scenes(recipe.data, tmp_path), crop_size=recipe.data.crop_size)
    train_set, _ = data.load()
    assert train_set[0][0].shape == (3, 144, 192)


def test_the_low_blocks_that_are_frozen_exist_and_reach_a_stride_of_4():
    recipe = deeplabv3plus_lite0()
    model = model_of(recipe)
    for path in recipe.training.frozen:
        assert list(model.get_submodule(path).parameters())
    blocks = [int(path.rpartition(".")[2]) for path in recipe.training.frozen if "blocks" in path]
    assert blocks == list(range(len(blocks)))
    maps = model.backbone.stem(torch.zeros(1, 3, 64, 64))
    for index in blocks:
        maps = model.backbone.blocks[index](maps)
    assert maps.shape[-1] == 64 // 4
    assert model.backbone.blocks[len(blocks)](maps).shape[-1] == 64 // 8  # the next one is trained


def test_there_is_no_auxiliary_head_and_the_head_is_light():
    model = model_of(deeplabv3plus_lite0())
    losses = model(torch.zeros(2, 3, 32, 48, dtype=torch.uint8), {"labels": torch.zeros(2, 32, 48, dtype=torch.int64)})
    assert set(losses) == {"loss"}
    head, backbone = (sum(weight.numel() for weight in part.parameters()) for part in (model.head, model.backbone))
    assert head < backbone
