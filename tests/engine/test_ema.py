import math

import pytest
import torch
from torch import nn

from equigrad import GradientStatistics
from equigrad.engine import Ema
from equigrad.engine.ema import AveragedModel


@pytest.fixture
def model():
    model = nn.Linear(1, 1, bias=False)
    model.norm = nn.BatchNorm1d(1)
    model.statistics = GradientStatistics(1)
    nn.init.constant_(model.weight, 1.0)
    return model


def test_two_updates_give_the_value_worked_out_by_hand(model):
    average = AveragedModel(model, Ema(decay=0.5, ramp=1.0))
    model.weight.data.fill_(3.0)
    average.update(model)
    first = 0.5 * (1 - math.exp(-1))
    expected = first * 1 + (1 - first) * 3
    assert average.model.weight.item() == pytest.approx(expected)
    average.update(model)
    second = 0.5 * (1 - math.exp(-2))
    assert average.model.weight.item() == pytest.approx(second * expected + (1 - second) * 3)


def test_the_default_ramp_is_that_of_yolox():
    assert Ema().decay_at(2000) == pytest.approx(0.9998 * (1 - 1 / math.e))
    assert Ema().decay_at(100_000) == pytest.approx(0.9998)


def test_running_means_are_averaged_but_counters_and_gradient_statistics_are_copied(model):
    average = AveragedModel(model, Ema(decay=0.5, ramp=1e-9))  # no ramp: the decay is 0.5 at once
    model.norm.running_mean.fill_(2.0)
    model.norm.num_batches_tracked.fill_(7)
    model.statistics.positive.fill_(8.0)
    average.update(model)
    assert average.model.norm.running_mean.item() == 1.0
    assert average.model.norm.num_batches_tracked.item() == 7
    assert average.model.statistics.positive.item() == 8.0


def test_state_round_trip(model):
    average = AveragedModel(model, Ema())
    model.weight.data.fill_(3.0)
    average.update(model)
    other = AveragedModel(model, Ema())
    other.load_state_dict(average.state_dict())
    average.update(model)
    other.update(model)
    assert torch.equal(average.model.weight, other.model.weight)
    assert other.updates == 2
