"""Weights from the statistics, interpreted, against those of the loss modules."""

import pytest
import torch
from torch.testing import assert_close

from equigrad import EqualizedFocalLoss, SigmoidEqualizationLoss, SoftmaxEqualizationLoss
from equigrad.losses.kernels.weights import focal_weights, margin, sigmoid_weights

POSITIVE = [0.0, 0.0, 1e-300, 5.0, 80.0, 100.0, 1e300, 3.0]
NEGATIVE = [0.0, 9.0, 1e300, 100.0, 100.0, 100.0, 1e-300, 0.0]


def with_statistics(loss):
    """Balanced, starved, overfed, and without negative gradient; in several blocks of categories."""
    num_copies = loss.num_classes // len(POSITIVE)
    loss.statistics.positive.copy_(torch.tensor(POSITIVE * num_copies, dtype=torch.float64))
    loss.statistics.negative.copy_(torch.tensor(NEGATIVE * num_copies, dtype=torch.float64))
    return loss, (loss.statistics.positive, loss.statistics.negative)


@pytest.mark.parametrize("mapping", ["sigmoid", "linear", "square", "sqrt"])
def test_weights_of_sigmoid_eql_are_those_of_the_module(compute, mapping):
    options = {"positive_boost": 3.0, "mapping": mapping, "steepness": 6.0, "midpoint": 0.5}
    loss, statistics = with_statistics(SigmoidEqualizationLoss(800, **options))
    assert_close(compute(sigmoid_weights, *statistics, **options), loss.category_weights(), rtol=1e-14, atol=1e-15)


def test_focus_and_weight_of_efl_are_those_of_the_module(compute):
    loss, statistics = with_statistics(EqualizedFocalLoss(800, base_focus=1.5, focus_scale=4.0))
    result = compute(focal_weights, *statistics, base_focus=1.5, focus_scale=4.0)
    assert_close(result, loss.category_weights(), rtol=1e-14, atol=0)


@pytest.mark.parametrize("indicator", ["positive", "negative", "ratio"])
def test_margins_of_softmax_eql_are_those_of_the_module(compute, indicator):
    options = {"prior_power": 1.5, "prior_floor": 1e-4}
    loss, statistics = with_statistics(SoftmaxEqualizationLoss(800, indicator=indicator, **options))
    priors = {"positive": statistics[:1], "negative": statistics[1:], "ratio": statistics}
    (result,) = compute(margin, *priors[indicator], **options)
    assert_close(result, loss.category_weights(), rtol=1e-14, atol=0)
