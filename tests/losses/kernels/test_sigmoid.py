"""The sigmoid kernel, interpreted, against the plain formula in float64."""

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.testing import assert_close

from equigrad import BACKGROUND, IGNORE
from equigrad.losses import functional, reference
from equigrad.losses.kernels.sigmoid import binary_cross_entropy
from losses.kernels.batches import NUM_EXAMPLES, Batch, Expected, assert_result, batches

BATCH = Batch(7, 5, (), "dense", torch.float64, 3.0, 0)


@given(batches())
@settings(max_examples=NUM_EXAMPLES)
def test_weighted_bce_is_the_plain_formula(compute, batch):
    result = compute(binary_cross_entropy, batch.logits, batch.labels, batch.first, batch.second)
    expected = batch.expected(lambda z, y: reference.sigmoid_equalization(z, y, batch.first, batch.second))
    assert_result(result, expected, batch.dtype)
    assert result.is_valid
    assert result.num_counted == (batch.labels != IGNORE).sum()
    assert_close(result.loss.double(), expected.loss / result.divisor, rtol=3e-5, atol=3e-6)
    assert result.divisor == max(1, result.num_counted)


@given(batches(), st.sampled_from([None, 0.25]), st.booleans())
@settings(max_examples=NUM_EXAMPLES)
def test_the_focal_loss_is_the_plain_formula(compute, batch, balance, is_constant):
    focus = 2.0 if is_constant else 1 + 4 * batch.third
    weights = (batch.first, batch.second)
    result = compute(binary_cross_entropy, batch.logits, batch.labels, *weights, focus=focus, positive_balance=balance)
    expected = batch.expected(lambda z, y: reference.focal_equalization(z, y, *weights, focus, balance))
    assert_result(result, expected, batch.dtype)


@given(batches())
@settings(max_examples=NUM_EXAMPLES)
def test_the_quality_focal_loss_is_the_plain_formula(compute, batch):
    focus, quality = 1 + 4 * batch.third, batch.quality.to(batch.dtype)
    weights = (batch.first, batch.first)
    result = compute(binary_cross_entropy, batch.logits, batch.labels, *weights, focus=focus, quality=quality)
    expected = batch.expected(
        lambda z, y: reference.equalized_quality_focal(z, y, quality.double(), focus, batch.first)
    )
    assert_result(result, expected, batch.dtype)


def functional_result(logits, labels, *weights, **options):
    """What the pass over blocks computes in float64, for what has no formula in `reference`."""
    logits = logits.to(torch.float64, copy=True).requires_grad_()
    loss, sums = functional.binary_cross_entropy(logits, labels, *weights, reduction="sum", **options)
    gradient = torch.autograd.grad(loss, logits)[0] if logits.numel() else torch.zeros_like(logits)
    return Expected(loss.detach(), gradient, sums.positive, sums.negative)


@given(
    batches(), st.sampled_from([torch.bool, torch.float32, torch.bfloat16]), st.sampled_from(["", "focus", "quality"])
)
@settings(max_examples=NUM_EXAMPLES)
def test_multi_label_targets_are_those_of_the_pass_over_blocks(compute, batch, dtype, formula):
    targets = (torch.rand_like(batch.logits, dtype=torch.float32) < 0.3).to(dtype)
    options = {"focus": 1 + batch.third} if formula else {}
    if formula == "quality":
        options["quality"] = torch.rand_like(batch.logits, dtype=torch.float32)
    weights = (batch.first, batch.second)
    result = compute(binary_cross_entropy, batch.logits, targets, *weights, **options)
    assert_result(result, functional_result(batch.logits, targets, *weights, **options), batch.dtype)
    assert result.num_counted == batch.labels.numel()


@given(batches())
@settings(max_examples=NUM_EXAMPLES)
def test_margin_scale_and_weights_of_samples_are_those_of_the_pass_over_blocks(compute, batch):
    options = {"margin": batch.first - 1, "scale": 2.0, "weight": batch.second, "foreground_weight": batch.third}
    result = compute(binary_cross_entropy, batch.logits, batch.labels, **options)
    assert_result(result, functional_result(batch.logits, batch.labels, **options), batch.dtype)


VARIFOCAL = {"weigh_by_quality": True, "focus_positives": False, "constant_weight": False}
SOFT_FORMULAS = {
    "bce": {},
    "quality focal": {"focus": 2.5},
    "quality focal, constant weight": {"focus": 2.5, "constant_weight": True},
    "varifocal": {"focus": 2.5, **VARIFOCAL},
    "varifocal, constant weight": {"focus": 2.5, **VARIFOCAL, "constant_weight": True},
    "varifocal, plain positives": {"focus": 2.5, "focus_positives": False},
}


@given(batches(), st.sampled_from([torch.float32, torch.bfloat16]), st.sampled_from(list(SOFT_FORMULAS)))
@settings(max_examples=NUM_EXAMPLES)
def test_soft_targets_are_those_of_the_pass_over_blocks(compute, batch, dtype, formula):
    soft = torch.rand_like(batch.logits, dtype=torch.float32)
    soft = soft.where(soft < 0.3, 0.0).mul(3).to(dtype)
    arguments, options = (batch.logits, soft, batch.first, batch.second), SOFT_FORMULAS[formula]
    result = compute(binary_cross_entropy, *arguments, **options, soft_targets=True)
    assert_result(result, functional_result(*arguments, **options, soft_targets=True), batch.dtype)


def test_soft_targets_of_0_and_1_are_hard_ones(compute):
    hard = (torch.rand_like(BATCH.logits) > 0.5).double()
    arguments = (BATCH.logits, hard, BATCH.first, BATCH.second)
    for options in ({}, {"focus": 2.0, **VARIFOCAL}):
        as_soft = compute(binary_cross_entropy, *arguments, **options, soft_targets=True)
        assert_close(as_soft, compute(binary_cross_entropy, *arguments, **options))


@given(batches(), st.booleans())
@settings(max_examples=NUM_EXAMPLES)
def test_the_varifocal_loss_is_the_plain_formula(compute, batch, is_constant):
    focus, quality = 1 + 4 * batch.third, batch.quality.to(batch.dtype)
    weights, options = (batch.first, 0.75 * batch.first), {**VARIFOCAL, "constant_weight": is_constant}
    result = compute(
        binary_cross_entropy, batch.logits, batch.labels, *weights, focus=focus, quality=quality, **options
    )
    expected = batch.expected(
        lambda z, y: reference.equalized_varifocal(z, y, quality.double(), focus, batch.first, 0.75, is_constant)
    )
    assert_result(result, expected, batch.dtype)


@given(batches())
@settings(max_examples=NUM_EXAMPLES)
def test_bce_of_qualities_is_the_plain_formula(compute, batch):
    quality, weights = batch.quality.to(batch.dtype), (batch.first, batch.second)
    result = compute(binary_cross_entropy, batch.logits, batch.labels, *weights, quality=quality)
    expected = batch.expected(lambda z, y: reference.sigmoid_equalization(z, y, *weights, quality.double()))
    assert_result(result, expected, batch.dtype)


def test_what_an_ignored_sample_holds_leaves_no_trace(compute):
    logits, labels = BATCH.logits.clone(), BATCH.labels.clone()
    labels[2] = 255
    expected = compute(binary_cross_entropy, logits, labels, focus=2.0, ignore_index=255)
    logits[2] = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, 1.0])
    result = compute(binary_cross_entropy, logits, labels, focus=2.0, ignore_index=255)
    assert_close(result, expected, rtol=0, atol=0)
    assert not result.gradient[2].any()


def test_a_batch_without_a_counted_sample_has_no_loss_and_no_gradient(compute):
    result = compute(binary_cross_entropy, BATCH.logits, torch.full_like(BATCH.labels, IGNORE))
    assert result.loss == result.num_counted == 0
    assert result.divisor == 1
    assert not result.gradient.any()


@pytest.mark.parametrize(
    ("label", "is_valid"), [(-2, False), (5, False), (2**40, False), (4, True), (BACKGROUND, True)]
)
def test_a_label_out_of_range_is_noticed(compute, label, is_valid):
    labels = BATCH.labels.clone()
    labels[3] = label
    assert compute(binary_cross_entropy, BATCH.logits, labels).is_valid == is_valid


@pytest.mark.parametrize("bad", [-0.1, 1.1, torch.nan])
def test_targets_and_qualities_out_of_range_are_noticed(compute, bad):
    targets, quality = torch.zeros_like(BATCH.logits), torch.zeros(7)
    for allowed in (0.5, 1.0):
        targets[6, 4] = quality[6] = allowed
        assert compute(binary_cross_entropy, BATCH.logits, targets).is_valid == (allowed == 1)
        assert compute(binary_cross_entropy, BATCH.logits, targets, soft_targets=True).is_valid
        assert compute(binary_cross_entropy, BATCH.logits, BATCH.labels, focus=2.0, quality=quality).is_valid
    targets[6, 4] = quality[6] = bad
    assert not compute(binary_cross_entropy, BATCH.logits, targets, soft_targets=True).is_valid
    assert not compute(binary_cross_entropy, BATCH.logits, BATCH.labels, focus=2.0, quality=quality).is_valid


@pytest.mark.parametrize("shape", [(1, 70_000), (700, 3), (2, 3, 2100)])
def test_more_than_one_program_on_either_side(compute, shape):
    """C of several blocks, and samples of several programs that take several tiles each."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(shape, generator=generator)
    labels = torch.randint(-1, shape[1], (shape[0], *shape[2:]), generator=generator)
    result = compute(binary_cross_entropy, logits, labels, focus=2.0)
    assert_result(result, functional_result(logits, labels, focus=2.0), torch.float32)


def far_apart(function, dtype, stride, *rest, **options):
    """The gradient of two samples whose logits lie `stride` entries apart; the memory between is never touched."""
    memory = torch.empty(stride + 4, dtype=dtype)
    logits = memory.as_strided((2, 4), (stride, 1))
    logits.copy_(torch.arange(8.0).view(2, 4) - 4)
    return function(logits, *rest, **options).run().gradient


def test_offsets_beyond_31_bits_are_reached(interpreted):
    labels = torch.tensor([1, BACKGROUND])
    gradient = interpreted(far_apart, binary_cross_entropy, torch.float16, 2**31 + 10, labels)
    assert_close(gradient, interpreted(far_apart, binary_cross_entropy, torch.float16, 4, labels), rtol=0, atol=0)


def test_samples_without_a_whole_view_are_refused():
    targets = torch.zeros(2, 3)
    for option in ("weight", "foreground_weight"):
        with pytest.raises(ValueError, match="need class indices"):
            binary_cross_entropy(torch.zeros(2, 3), targets, **{option: torch.ones(3)})
    with pytest.raises(ValueError, match="a quality needs targets of 0 and 1"):
        binary_cross_entropy(torch.zeros(2, 3), targets, quality=torch.zeros(2), soft_targets=True)


OBJECTNESS_OPTIONS = {
    "bce": {},
    "focal": {"focus": 2.0, "positive_balance": 0.25},
    "quality": {"focus": 2.0},
    "quality varifocal": {"focus": 2.0, **VARIFOCAL},
    "margin": {"margin": 1.5, "scale": 2.0},
    "by sample": {"foreground_weight": 0.5, "weight": 3.0},
}


@given(batches(), st.sampled_from(list(OBJECTNESS_OPTIONS)))
@settings(max_examples=NUM_EXAMPLES)
def test_a_column_of_objectness_is_plain_bce_and_in_no_sum(compute, batch, kind):
    options = dict(OBJECTNESS_OPTIONS[kind])
    if kind.startswith("quality"):
        options["quality"] = batch.quality.to(batch.dtype)
    logits = torch.cat([batch.logits, batch.logits[:, :1] / 2], 1)
    result = compute(binary_cross_entropy, logits, batch.labels, batch.first, batch.second, objectness=True, **options)
    categories = functional_result(logits[:, :-1], batch.labels, batch.first, batch.second, **options)
    column = functional_result(logits[:, -1:], batch.labels.clamp(max=0))
    gradient = torch.cat([categories.gradient, column.gradient], 1)
    expected = Expected(categories.loss + column.loss, gradient, categories.positive, categories.negative)
    assert_result(result, expected, batch.dtype)
    assert result.is_valid


def test_objectness_needs_class_indices_and_the_kernels():
    with pytest.raises(ValueError, match="objectness needs class indices"):
        binary_cross_entropy(BATCH.logits, torch.zeros_like(BATCH.logits), objectness=True)
    with pytest.raises(ValueError, match="objectness needs the Triton kernels"):
        functional.binary_cross_entropy(BATCH.logits, BATCH.labels, objectness=True)
