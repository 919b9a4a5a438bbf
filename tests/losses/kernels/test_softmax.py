"""The softmax kernels, interpreted, against the plain formula in float64."""

import math

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.testing import assert_close

from equigrad import BACKGROUND, IGNORE
from equigrad.losses import functional, reference
from equigrad.losses.kernels import layout
from equigrad.losses.kernels.softmax import cross_entropy
from losses.kernels.batches import NUM_EXAMPLES, Batch, Expected, assert_result, batches
from losses.kernels.interpreted import run_pass

BATCH = Batch(7, 5, (), "dense", torch.float64, 3.0, 0, background=False)


def run_in_blocks(*arguments, **options):
    """The same pass as if a sample did not fit into a tile: another kernel finds its peak and total, 512 at a time."""
    before = layout.MAX_ROW_ELEMENTS, layout.TILE_ELEMENTS
    layout.MAX_ROW_ELEMENTS, layout.TILE_ELEMENTS = 0, 256
    try:
        assert len(cross_entropy(*arguments, **options).launches) == 3
        return run_pass(cross_entropy, *arguments, **options)
    finally:
        layout.MAX_ROW_ELEMENTS, layout.TILE_ELEMENTS = before


@pytest.fixture(params=["one tile", "blocks"], scope="module")
def softmax(request, compute, interpreted):
    """Calls `cross_entropy`, with whole samples in a tile or not."""
    if request.param == "one tile":
        return lambda *arguments, **options: compute(cross_entropy, *arguments, **options)
    return lambda *arguments, **options: interpreted(run_in_blocks, *arguments, **options)


def functional_result(logits, labels, *margin, **options):
    """What the pass over blocks computes in float64, for what has no formula in `reference`."""
    logits = logits.to(torch.float64, copy=True).requires_grad_()
    loss, sums = functional.cross_entropy(logits, labels, *margin, reduction="sum", **options)
    gradient = torch.autograd.grad(loss, logits)[0] if logits.numel() else torch.zeros_like(logits)
    return Expected(loss.detach(), gradient, sums.positive, sums.negative)


@given(batches(background=False))
@settings(max_examples=NUM_EXAMPLES)
def test_cross_entropy_with_a_margin_is_the_plain_formula(softmax, batch):
    margin = (batch.first + 1e-4).log()
    result = softmax(batch.logits, batch.labels, margin)
    expected = batch.expected(lambda z, y: reference.softmax_equalization(z, y, margin))
    assert_result(result, expected, batch.dtype, batch.magnitude)
    assert result.is_valid
    assert result.num_counted == (batch.labels != IGNORE).sum()


@given(batches(background=False))
@settings(max_examples=NUM_EXAMPLES)
def test_ldam_is_the_plain_formula(softmax, batch):
    result = softmax(batch.logits, batch.labels, label_margin=3 * batch.first, scale=3.0, weight=batch.second)
    expected = batch.expected(lambda z, y: reference.ldam(z, y, batch.first, 3.0, batch.second))
    assert_result(result, expected, batch.dtype, 3 * batch.magnitude)


@given(batches(background=False), st.booleans(), st.sampled_from([0.0, 0.1]), st.booleans())
@settings(max_examples=NUM_EXAMPLES)
def test_soft_labels_and_smoothing_are_those_of_the_pass_over_blocks(softmax, batch, is_soft, smoothing, is_weighted):
    labels = batch.labels
    if is_soft:
        labels = (3 * torch.rand(batch.logits.shape, dtype=torch.float64)).softmax(1)
    options = {"label_smoothing": smoothing, "weight": batch.second if is_weighted else None, "scale": 0.5}
    result = softmax(batch.logits, labels, batch.first, **options)
    expected = functional_result(batch.logits, labels, batch.first, **options)
    assert_result(result, expected, batch.dtype, batch.magnitude)


def test_what_an_ignored_sample_holds_leaves_no_trace(softmax):
    logits, labels = BATCH.logits.clone(), BATCH.labels.clone()
    labels[2] = 255
    expected = softmax(logits, labels, ignore_index=255)
    logits[2] = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, 1.0])
    result = softmax(logits, labels, ignore_index=255)
    assert_close(result, expected, rtol=0, atol=0)
    assert not result.gradient[2].any()


def test_a_category_that_is_masked_has_no_gradient(softmax):
    logits = torch.full((1, 300), -torch.inf, dtype=torch.float64)
    logits[0, 290:292] = 0
    result = softmax(logits, torch.tensor([291]))
    assert_close(result.loss.item(), math.log(2))
    assert_close(result.gradient[0, 290:292].tolist(), [0.5, -0.5])
    assert result.gradient[0, :290].count_nonzero() == 0


def test_a_sample_that_is_nearly_certain_keeps_its_digits(softmax):
    """1 - p of 1e-12 has no float32 beside 1, but its own."""
    result = softmax(torch.tensor([[0.0, math.log(1e-12)]]), torch.tensor([0]))
    for value in (result.loss.item(), -result.gradient[0, 0].item(), result.positive[0].item()):
        assert_close(value, 1e-12, rtol=1e-5, atol=0)


@pytest.mark.parametrize("label", [BACKGROUND, 5, 2**40])
def test_a_label_out_of_range_is_noticed(softmax, label):
    labels = BATCH.labels.clone()
    assert softmax(BATCH.logits, labels).is_valid
    labels[3] = label
    assert not softmax(BATCH.logits, labels).is_valid


@pytest.mark.parametrize(
    "row", [[0.5, 0.2, 0.2, 0.0, 0.0], [1.5, -0.5, 0.0, 0.0, 0.0], [torch.nan, 1.0, 0.0, 0.0, 0.0]]
)
def test_soft_labels_that_are_no_probabilities_are_noticed(softmax, row):
    soft = torch.full_like(BATCH.logits, 0.2)
    assert softmax(BATCH.logits, soft).is_valid
    soft[3] = torch.tensor(row)
    assert not softmax(BATCH.logits, soft).is_valid


@pytest.mark.parametrize("shape", [(1, 70_000), (700, 3), (2, 3, 2100), (1, 1100, 40)])
def test_more_than_one_program_on_either_side(compute, shape):
    """C of several blocks, and samples of several programs that take several tiles each."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(shape, generator=generator)
    labels = torch.randint(0, shape[1], (shape[0], *shape[2:]), generator=generator)
    result = compute(cross_entropy, logits, labels)
    assert_result(result, functional_result(logits, labels), torch.float32)


def test_a_margin_of_the_label_needs_one_label():
    with pytest.raises(ValueError, match="label_margin needs class indices"):
        cross_entropy(torch.zeros(2, 4), torch.full((2, 4), 0.25), label_margin=torch.ones(4))


def test_a_smoothed_label_has_its_margin_too(softmax):
    options = {"label_margin": 3 * BATCH.first, "scale": 3.0, "weight": BATCH.second, "label_smoothing": 0.2}
    result = softmax(BATCH.logits, BATCH.labels, **options)
    assert_result(result, functional_result(BATCH.logits, BATCH.labels, **options), BATCH.dtype)
