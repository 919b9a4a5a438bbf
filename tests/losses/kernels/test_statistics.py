"""The update of the statistics, interpreted, against the module's own."""

import pytest
import torch
from torch.testing import assert_close

from equigrad import IGNORE, GradientStatistics
from equigrad.losses.kernels.launch import run
from equigrad.losses.kernels.sigmoid import binary_cross_entropy
from equigrad.losses.kernels.softmax import cross_entropy
from equigrad.losses.kernels.statistics import update_statistics

NUM_CLASSES = 1500  # more than a block


def updated(records, **options):
    """What the statistics are after some batches."""
    positive = torch.ones(records[0].numel() // 2, dtype=torch.float64)
    negative, skipped = 2 * positive, torch.zeros((), dtype=torch.int64)
    for record in records:
        run(update_statistics(positive, negative, skipped, record, **options))
    return positive, negative, skipped


def record(seed, divisor):
    sums = torch.rand(2 * NUM_CLASSES, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.cat([sums, torch.tensor([divisor], dtype=torch.float64)])


@pytest.mark.parametrize("half_life", [None, 3.0])
@pytest.mark.parametrize("is_divided", [True, False])
def test_batches_are_added_as_the_module_adds_them(interpreted, half_life, is_divided):
    statistics = GradientStatistics(NUM_CLASSES, half_life)
    statistics.positive.fill_(1)
    statistics.negative.fill_(2)
    records = [record(seed, 1.0 + seed) for seed in range(3)]
    for sums in records:
        divisor = sums[-1] if is_divided else None
        statistics.update(sums[:NUM_CLASSES], sums[NUM_CLASSES:-1], divisor)
    kept = 1.0 if half_life is None else 0.5 ** (1 / half_life)
    positive, negative, skipped = interpreted(updated, records, is_divided=is_divided, kept=kept)
    assert_close((positive, negative), (statistics.positive, statistics.negative), rtol=1e-14, atol=0)
    assert skipped == 0


def test_a_batch_without_samples_adds_nothing(interpreted):
    empty = torch.zeros(2 * NUM_CLASSES + 1, dtype=torch.float64)
    positive, negative, skipped = interpreted(updated, [empty], is_divided=True)
    assert positive.unique() == 1
    assert negative.unique() == 2
    assert skipped == 0


def record_of(function, logits, labels):
    return function(logits, labels).run().record


@pytest.mark.parametrize("function", [binary_cross_entropy, cross_entropy])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_batch_that_is_not_finite_on_one_rank_changes_nothing_and_is_counted(interpreted, function, value):
    logits, labels = torch.zeros(5, 4), torch.tensor([0, 1, 2, IGNORE, 3])
    good = interpreted(record_of, function, logits, labels)
    logits[2, 1] = value
    bad = interpreted(record_of, function, logits, labels)
    assert bad[-1].isnan() == (function is cross_entropy or value is torch.nan)  # sigmoid(inf) has a gradient: 1
    poisoned = torch.cat([bad[:-1], torch.tensor([torch.nan], dtype=torch.float64)])
    for over_ranks in (poisoned, good + poisoned):
        positive, negative, skipped = interpreted(updated, [over_ranks], is_divided=True, kept=0.5)
        assert positive.unique() == 1
        assert negative.unique() == 2
        assert skipped == 1
