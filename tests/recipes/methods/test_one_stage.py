import numpy as np
import pytest
import torch
from torch.testing import assert_close

import equigrad
from equigrad.recipes.methods.one_stage import METHODS, SOFT_BCE
from equigrad.tasks.detection.detectors import ImprovedAtss
from equigrad.tasks.losses import CategoryCounts, Efl
from models.small_detectors import TinyPyramid, batch

COUNTS = CategoryCounts(np.array([50, 20, 3, 1]), np.array([100, 40, 6, 2]))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_trains_a_detector(name):
    losses = ImprovedAtss().build(TinyPyramid(), METHODS[name], COUNTS)(*batch())
    assert set(losses) == {"classification", "box", "quality"}
    assert all(loss.isfinite() for loss in losses.values())


@pytest.mark.parametrize(
    ("name", "plain"),
    [("fl", equigrad.FocalLoss()), ("qfl", equigrad.QualityFocalLoss()), ("vfl", equigrad.VarifocalLoss())],
)
def test_the_scale_zero_is_the_plain_loss_with_its_gradients_watched(name, plain):
    method = METHODS[name]
    logits, labels, quality = torch.randn(9, 4), torch.tensor([0, 1, 2, 3, -1, -1, 0, 0, 1]), torch.rand(9)
    extra = [quality] if method.with_quality else []
    loss = method.loss.build(COUNTS)
    for _ in range(2):  # the second time with statistics
        assert_close(loss(logits, labels, *extra), plain(logits, labels, *extra))
    assert loss.statistics.negative.sum() > 0


def test_the_factors_of_efl_are_switched_one_by_one():
    logits, labels = torch.randn(9, 4), torch.tensor([0, 0, 0, 1, -1, -1, 0, 0, 1])
    weights = {}
    for name, settings in (("both", Efl()), ("weighting", Efl(focusing=False)), ("focusing", Efl(weighting=False))):
        loss = settings.build(COUNTS)
        loss(logits, labels)
        weights[name] = loss.category_weights()
    assert_close(weights["weighting"][0], torch.full((4,), 2.0), check_dtype=False)
    assert_close(weights["focusing"][1], torch.ones(4), check_dtype=False)
    assert weights["both"][0][2] == 10  # never positive: gamma_b + s
    assert weights["both"][1][2] == weights["weighting"][1][2] == 5


def test_soft_binary_cross_entropy_is_that_of_torch():
    logits, quality = torch.randn(3, 4), torch.tensor([0.7, 0.2, 1.0])
    soft = torch.zeros(3, 4)
    soft[torch.arange(3), torch.tensor([1, 3, 0])] = quality
    expected = torch.nn.functional.binary_cross_entropy_with_logits(logits, soft, reduction="sum")
    assert SOFT_BCE.with_quality
    assert_close(SOFT_BCE.loss.build(COUNTS)(logits, torch.tensor([1, 3, 0]), quality, normalizer=1.0), expected)
