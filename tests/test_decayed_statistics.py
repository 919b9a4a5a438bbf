"""Statistics that forget."""

import math

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.testing import assert_close

from equigrad import (
    EqualizedFocalLoss,
    EqualizedQualityFocalLoss,
    EqualizedVarifocalLoss,
    FocalEqualizationLoss,
    GradientStatistics,
    SigmoidEqualizationLoss,
    SoftmaxEqualizationLoss,
)

LOSSES = [
    SigmoidEqualizationLoss,
    SoftmaxEqualizationLoss,
    EqualizedFocalLoss,
    EqualizedQualityFocalLoss,
    EqualizedVarifocalLoss,
    FocalEqualizationLoss,
]


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def train(criterion, num_steps=4):
    generator = torch.Generator().manual_seed(0)
    for _ in range(num_steps):
        logits = torch.randn(9, 3, generator=generator, dtype=torch.float64, requires_grad=True)
        labels = torch.randint(3, (9,), generator=generator)
        quality = torch.rand(9, generator=generator, dtype=torch.float64)
        takes_quality = isinstance(criterion, EqualizedQualityFocalLoss | EqualizedVarifocalLoss)
        criterion(logits, labels, *([quality] if takes_quality else []))


def test_a_gradient_counts_half_after_its_half_life():
    statistics = GradientStatistics(2, half_life=2)
    statistics.update(tensor([8.0, 0.0]), tensor([4.0, 4.0]))
    for _ in range(2):
        statistics.update(tensor([0.0, 0.0]), tensor([0.0, 0.0]))
    assert_close(statistics.positive, tensor([4.0, 0.0]))
    assert_close(statistics.negative, tensor([2.0, 2.0]))


def test_the_newest_gradient_counts_in_full():
    statistics = GradientStatistics(1, half_life=1)
    statistics.update(tensor([8.0]), tensor([8.0]), divisor=2.0)
    statistics.update(tensor([3.0]), tensor([1.0]), divisor=1.0)
    assert_close(statistics.positive, tensor([2.0 + 3.0]))
    assert_close(statistics.negative, tensor([2.0 + 1.0]))


def test_a_poisoned_start_is_forgotten():
    cumulative, decayed = GradientStatistics(1), GradientStatistics(1, half_life=5)
    for statistics in (cumulative, decayed):
        statistics.update(tensor([0.0]), tensor([1e6]))
        for _ in range(200):
            statistics.update(tensor([1.0]), tensor([1.0]))
    assert cumulative.ratio < 1e-3
    assert_close(decayed.ratio, tensor([1.0]), rtol=1e-4, atol=0)


@given(
    half_life=st.floats(0.1, 1e6),
    batches=st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)), min_size=1, max_size=10),
)
@settings(max_examples=30)
def test_the_sums_are_weighted_by_age(half_life, batches):
    statistics = GradientStatistics(1, half_life=half_life)
    for positive, negative in batches:
        statistics.update(tensor([positive]), tensor([negative]))
    ages = range(len(batches) - 1, -1, -1)
    expected = [
        sum(0.5 ** (age / half_life) * pair[k] for age, pair in zip(ages, batches, strict=True)) for k in (0, 1)
    ]
    assert_close(torch.cat([statistics.positive, statistics.negative]), tensor(expected), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("loss_class", LOSSES)
def test_no_half_life_is_cumulative_bit_for_bit(loss_class):
    default, explicit, endless = loss_class(3), loss_class(3, half_life=None), loss_class(3, half_life=1e15)
    for criterion in (default, explicit, endless):
        train(criterion)
    assert torch.equal(default.statistics.positive, explicit.statistics.positive)
    assert torch.equal(default.statistics.negative, explicit.statistics.negative)
    assert_close(endless.statistics.negative, default.statistics.negative)


@pytest.mark.parametrize("loss_class", LOSSES)
def test_every_equalization_loss_hands_its_half_life_on(loss_class):
    forgetful, cumulative = loss_class(3, half_life=1), loss_class(3)
    train(forgetful)
    train(cumulative)
    assert (forgetful.statistics.negative < cumulative.statistics.negative).all()
    assert "half_life=1" in repr(forgetful)


def test_a_checkpoint_of_one_kind_loads_into_the_other():
    decayed = GradientStatistics(3, half_life=2)
    decayed.update(tensor([1.0, 2.0, 3.0]), tensor([3.0, 2.0, 1.0]))
    cumulative = GradientStatistics(3)
    cumulative.load_state_dict(decayed.state_dict())
    assert_close(cumulative.ratio, decayed.ratio)


@pytest.mark.parametrize(
    ("half_life", "error"),
    [(0, ValueError), (-1.0, ValueError), (math.inf, ValueError), ("2", TypeError), (True, TypeError)],
)
def test_a_wrong_half_life_is_refused(half_life, error):
    with pytest.raises(error, match="half_life must be"):
        GradientStatistics(3, half_life=half_life)
