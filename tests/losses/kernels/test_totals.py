"""What the programs leave behind, added up."""

import math

import pytest
import torch
from torch.testing import assert_close

from equigrad import BACKGROUND, IGNORE
from equigrad.losses.kernels.sigmoid import binary_cross_entropy
from equigrad.losses.kernels.softmax import cross_entropy
from losses.kernels.batches import Batch

BATCH = Batch(6, 5, (), "dense", torch.float32, 3.0, 1)
NUM_COUNTED = int((BATCH.labels != IGNORE).sum())


@pytest.mark.parametrize(
    ("options", "divisor"),
    [
        ({}, NUM_COUNTED),
        ({"reduction": "sum"}, 1.0),
        ({"normalizer": 2.5}, 2.5),
        ({"normalizer": torch.tensor(2.5)}, 2.5),
        ({"normalizer": 2.5, "reduction": "sum"}, 2.5),
        ({"normalizer": 1 / 3}, 1 / 3),
    ],
)
def test_the_loss_is_divided_and_gradient_and_sums_are_not(compute, options, divisor):
    undivided = compute(binary_cross_entropy, BATCH.logits, BATCH.labels, reduction="sum")
    result = compute(binary_cross_entropy, BATCH.logits, BATCH.labels, **options)
    assert result.divisor == divisor
    assert result.num_counted == NUM_COUNTED
    assert result.loss.dtype == torch.float32
    assert_close(result.loss, (undivided.loss_sum / divisor).float(), rtol=0, atol=0)
    assert_close(result.gradient, undivided.gradient, rtol=0, atol=0)
    assert_close(result.record, torch.cat([undivided.record[:-1], result.divisor.view(1)]), rtol=0, atol=0)
    assert_close(torch.cat([result.positive, result.negative]), result.record[:-1], rtol=0, atol=0)


@pytest.mark.parametrize("function", [binary_cross_entropy, cross_entropy])
def test_without_a_gradient_loss_and_sums_are_the_same(compute, function):
    labels = BATCH.labels.clamp(min=0)
    result = compute(function, BATCH.logits, labels, with_gradient=False)
    assert result.gradient is None
    assert_close(result[2:], compute(function, BATCH.logits, labels)[2:], rtol=0, atol=0)


def test_a_sum_over_many_programs_keeps_what_a_float32_sum_would_lose(compute):
    """Beside 1/2, a gradient of 2^-26 is lost in float32; 2^15 of them are a thousandth."""
    logits = torch.full((2**15, 1), -26 * math.log(2))
    logits[0] = 0
    result = compute(binary_cross_entropy, logits, torch.full((2**15,), BACKGROUND))
    assert_close(result.negative, logits.double().sigmoid().sum(0), rtol=1e-6, atol=0)
