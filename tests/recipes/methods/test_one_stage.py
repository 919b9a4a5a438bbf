import numpy as np
import pytest
import torch
from equigrad.recipes.dense_methods import DENSE_METHODS, FL, QFL, SOFT_BCE, OneStage, efl
from equigrad.recipes.trained_categories import TrainedCategories
from torch.testing import assert_close

import equigrad
from equigrad.models.detection.one_stage.atss import improved_atss
from models.small_detectors import TinyPyramid, batch

COUNTS = np.array([50, 20, 3, 1])
CATEGORIES = TrainedCategories(("a", "b", "c", "d"), ("common", "common", "rare", "rare"), COUNTS, 2 * COUNTS)


@pytest.mark.parametrize("name", DENSE_METHODS)
def test_every_method_trains_a_detector(name):
    detector = OneStage(improved_atss, DENSE_METHODS[name])
    assert not detector.with_masks
    losses = detector(TinyPyramid(), CATEGORIES)(*batch())
    assert set(losses) == {"classification", "box", "quality"}
    assert all(loss.isfinite() for loss in losses.values())


@pytest.mark.parametrize(
    ("method", "plain"), [(FL, equigrad.FocalLoss()), (QFL, equigrad.QualityFocalLoss()), (efl(0.0), None)]
)
def test_the_scale_zero_is_the_plain_loss_with_its_gradients_watched(method, plain):
    plain = plain or equigrad.FocalLoss()
    logits, labels, quality = torch.randn(9, 4), torch.tensor([0, 1, 2, 3, -1, -1, 0, 0, 1]), torch.rand(9)
    extra = [quality] if method.with_quality else []
    loss = method.loss(COUNTS)
    for _ in range(2):  # the second time with statistics
        assert_close(loss(logits, labels, *extra), plain(logits, labels, *extra))
    assert loss.statistics.negative.sum() > 0


def test_the_factors_of_efl_are_switched_one_by_one():
    logits, labels = torch.randn(9, 4), torch.tensor([0, 0, 0, 1, -1, -1, 0, 0, 1])
    weights = {}
    for name, method in (("both", efl()), ("weighting", efl(focusing=False)), ("focusing", efl(weighting=False))):
        loss = method.loss(COUNTS)
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
    assert_close(SOFT_BCE.loss(COUNTS)(logits, torch.tensor([1, 3, 0]), quality, normalizer=1.0), expected)
