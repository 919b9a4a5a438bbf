"""How a pass cuts the logits, and what it leaves for backward. Loss and gradient: test_functional.py."""

import pytest
import torch
from hypothesis import given, strategies as st

from equigrad.losses import blockwise
from equigrad.losses.blockwise import BlockwisePass


@given(
    st.integers(0, 9), st.integers(1, 4), st.lists(st.integers(0, 5), max_size=2), st.integers(1, 60), st.integers(0, 3)
)
def test_blocks_cover_every_sample_once(num_samples, num_classes, positions, max_elements, num_temporaries):
    run = BlockwisePass(torch.zeros(num_samples, num_classes, *positions), None)
    labels = run.flatten(torch.zeros(num_samples, *positions))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blockwise, "MAX_BLOCK_ELEMENTS", max_elements)
        patch.setattr(blockwise, "MIN_BLOCK_ELEMENTS", 1)
        blocks = run.blocks(num_temporaries)
    covered = torch.zeros_like(run.flat)
    for block in blocks:
        covered[block.entries] += 1
        labels[block.samples] += 1
        assert covered[block.entries].numel() <= max(max_elements, num_classes)
    assert (covered == 1).all()
    assert (labels == 1).all()


def test_more_temporaries_make_smaller_blocks():
    run = BlockwisePass(torch.zeros(5000, 100), None)
    sizes = [run.blocks(count)[0].samples[0].stop for count in (0, 1, 4)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[1]
    assert run.blocks(num_samples=7)[0].samples[0].stop == 7


@pytest.mark.parametrize("shape", [(6, 3), (2, 3, 4, 5)])
def test_logits_are_not_copied_whatever_their_layout(shape):
    logits = torch.zeros(shape)
    layouts = [logits] if len(shape) == 2 else [logits, logits.to(memory_format=torch.channels_last)]
    for values in layouts:
        assert BlockwisePass(values, None).flat.data_ptr() == values.data_ptr()


def test_a_half_precision_gradient_is_stored_undivided():
    divisor = torch.tensor(5.0, dtype=torch.float64)
    half = BlockwisePass(torch.zeros(2, 3, dtype=torch.float16, requires_grad=True), divisor)
    single = BlockwisePass(torch.zeros(2, 3, requires_grad=True), divisor)
    assert half.stored_divisor == 1
    assert half.workspace is None
    assert single.stored_divisor == 5
    assert single.workspace is single.gradient


def test_sums_are_those_by_the_unscaled_logits():
    run = BlockwisePass(torch.zeros(1, 2), None, margin=0.0, scale=3.0)
    run.positive += 1
    run.negative = 2 * run.positive
    assert [sums.tolist() for sums in run.gradient_sums()[:2]] == [[3.0, 3.0], [6.0, 6.0]]
