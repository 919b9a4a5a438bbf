"""The column sums of LADE. Its loss and gradient: test_single_label.py."""

import torch
from torch.testing import assert_close

from equigrad import IGNORE
from equigrad.losses.blockwise import BlockwisePass
from equigrad.losses.density_ratio import sum_columns


def test_columns_are_summed_over_the_samples_that_count_in_any_number_of_blocks():
    generator = torch.Generator().manual_seed(0)
    logits = 20 * torch.randn(30, 4, generator=generator, dtype=torch.float64)
    labels = torch.randint(4, (30,), generator=generator)
    labels[::4] = IGNORE
    counted = labels != IGNORE
    for num_samples in (30, 7, 1):
        run = BlockwisePass(logits, None)
        columns = sum_columns(run, run.blocks(num_samples=num_samples), labels)
        for category in range(4):
            assert_close(columns.own_sum[category], logits[labels == category, category].sum())
            assert columns.own_count[category] == (labels == category).sum()
        assert_close(columns.peak, logits[counted].amax(0))
        assert_close(columns.peak + columns.total.log(), logits[counted].logsumexp(0))
