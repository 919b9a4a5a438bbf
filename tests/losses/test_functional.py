"""Loss, gradient and gradient sums of every formula, against autograd of the plain formula."""

import gc

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.testing import assert_close

from equigrad import BACKGROUND, IGNORE
from equigrad.losses import blockwise, functional, reference
from losses.gradients import gradient_sums, rows

FORMULAS = ["bce", "focal", "quality", "softmax"]
PLACES = [(), (1,), (3,), (2, 2)]


class Batch:
    """Random logits, labels and category vectors of one formula, in float64."""

    def __init__(self, formula, num_samples, num_classes, places, seed, spread=3.0):
        generator = torch.Generator().manual_seed(seed)

        def uniform(*shape):
            return torch.rand(*shape, generator=generator, dtype=torch.float64)

        self.formula = formula
        self.logits = (2 * uniform(num_samples, num_classes, *places) - 1).mul_(spread).requires_grad_()
        self.labels = torch.randint(-2, num_classes, (num_samples, *places), generator=generator)
        self.labels[self.labels == -2] = IGNORE
        if formula == "softmax":
            self.labels[self.labels == BACKGROUND] = IGNORE
        self.quality = uniform(num_samples, *places)
        self.focus, self.first, self.second = 1 + 4 * uniform(num_classes), uniform(num_classes), uniform(num_classes)

    def ours(self, logits=None, labels=None, quality=None, **reduction):
        logits = self.logits if logits is None else logits
        labels = self.labels if labels is None else labels
        quality = self.quality if quality is None else quality
        if self.formula == "bce":
            return functional.binary_cross_entropy(logits, labels, self.first, self.second, **reduction)
        if self.formula == "focal":
            weights = (self.first, self.second)
            return functional.binary_cross_entropy(logits, labels, *weights, focus=self.focus, **reduction)
        if self.formula == "quality":
            weights, options = (self.first, self.first), {"focus": self.focus, "quality": quality}
            return functional.binary_cross_entropy(logits, labels, *weights, **options, **reduction)
        return functional.cross_entropy(logits, labels, self.first.log(), **reduction)

    def plain(self):
        """Sum over the samples."""
        if self.formula == "bce":
            return reference.sigmoid_equalization(self.logits, self.labels, self.first, self.second).sum()
        if self.formula == "focal":
            options = {"focus": self.focus, "positive_balance": None}
            return reference.focal_equalization(self.logits, self.labels, self.first, self.second, **options).sum()
        if self.formula == "quality":
            args = (self.logits, self.labels, self.quality, self.focus, self.first)
            return reference.equalized_quality_focal(*args).sum()
        return reference.softmax_equalization(self.logits, self.labels, self.first.log()).sum()


batches = st.builds(
    Batch,
    st.sampled_from(FORMULAS),
    st.integers(0, 6),
    st.integers(1, 5),
    st.sampled_from(PLACES),
    st.integers(0, 2**31),
    st.sampled_from([0.1, 3.0, 30.0]),
)


@given(batches)
@settings(max_examples=150)
def test_loss_gradient_and_sums_are_those_of_autograd(batch):
    (expected_gradient,) = torch.autograd.grad(expected := batch.plain(), batch.logits)
    loss, sums = batch.ours(reduction="sum")
    (gradient,) = torch.autograd.grad(loss, batch.logits)
    positive, negative = gradient_sums(expected_gradient, batch.labels)
    assert_close(loss, expected, rtol=1e-9, atol=1e-12)
    assert_close(gradient, expected_gradient, rtol=1e-8, atol=1e-12)
    assert_close(sums.positive, positive, rtol=1e-8, atol=1e-12)
    assert_close(sums.negative, negative, rtol=1e-8, atol=1e-12)


@given(batches)
@settings(max_examples=60)
def test_the_order_of_samples_changes_nothing(batch):
    order = torch.randperm(len(batch.labels))
    loss, sums = batch.ours(reduction="sum")
    shuffled_loss, shuffled_sums = batch.ours(
        batch.logits[order], batch.labels[order], batch.quality[order], reduction="sum"
    )
    assert_close(shuffled_loss, loss)
    assert_close(shuffled_sums.positive, sums.positive)
    assert_close(shuffled_sums.negative, sums.negative)


@given(batches, st.integers(1, 40))
@settings(max_examples=60)
def test_the_block_size_changes_nothing(batch, block_elements):
    loss, sums = batch.ours()
    (gradient,) = torch.autograd.grad(loss, batch.logits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blockwise, "MAX_BLOCK_ELEMENTS", block_elements)
        patch.setattr(blockwise, "MIN_BLOCK_ELEMENTS", 1)
        blocked_loss, blocked_sums = batch.ours()
        (blocked_gradient,) = torch.autograd.grad(blocked_loss, batch.logits)
    assert_close(blocked_loss, loss)
    assert_close(blocked_gradient, gradient)
    assert_close(blocked_sums.positive, sums.positive)
    assert_close(blocked_sums.negative, sums.negative)


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("layout", ["rows", "channels_last", "strided"])
def test_the_memory_layout_changes_nothing(formula, layout):
    batch = Batch(formula, 3, 5, (4, 2), seed=1)
    loss, sums = batch.ours()
    (gradient,) = torch.autograd.grad(loss, batch.logits)
    if layout == "rows":
        logits = rows(batch.logits).detach().requires_grad_()
        other_loss, other_sums = batch.ours(logits, batch.labels.flatten(), batch.quality.flatten())
        (other_gradient,) = torch.autograd.grad(other_loss, logits)
        gradient = rows(gradient)
    else:
        if layout == "channels_last":
            logits = batch.logits.detach().to(memory_format=torch.channels_last).requires_grad_()
        else:
            logits = torch.stack([batch.logits.detach()] * 2, -1)[..., 0].requires_grad_()
        other_loss, other_sums = batch.ours(logits)
        (other_gradient,) = torch.autograd.grad(other_loss, logits)
        assert layout != "channels_last" or other_gradient.is_contiguous(memory_format=torch.channels_last)
    assert_close(other_loss, loss)
    assert_close(other_gradient, gradient, check_stride=False)
    assert_close(other_sums.negative, sums.negative)


@pytest.mark.parametrize("formula", ["bce", "focal", "quality"])
@pytest.mark.parametrize("places", [(), (3, 2)])
def test_multi_label_targets_equal_class_labels_where_both_can_say_it(formula, places):
    batch = Batch(formula, 6, 4, places, seed=2)
    batch.labels[batch.labels == IGNORE] = BACKGROUND
    targets = batch.labels.unsqueeze(1) == torch.arange(4).view(1, -1, *[1] * len(places))
    loss, sums = batch.ours()
    (gradient,) = torch.autograd.grad(loss, batch.logits)
    for dtype in (torch.bool, torch.float32):
        multi_loss, multi_sums = batch.ours(labels=targets.to(dtype))
        (multi_gradient,) = torch.autograd.grad(multi_loss, batch.logits)
        assert_close(multi_loss, loss)
        assert_close(multi_gradient, gradient)
        assert_close(multi_sums.positive, sums.positive)
        assert_close(multi_sums.negative, sums.negative)


def test_several_positives_in_a_sample_each_count():
    logits = torch.tensor([[0.5, -1.0, 2.0]], dtype=torch.float64)
    loss, sums = functional.binary_cross_entropy(logits, torch.tensor([[1.0, 1.0, 0.0]]), 3.0, 0.5)
    p = logits.sigmoid()[0]
    assert_close(loss, 3 * -p[0].log() + 3 * -p[1].log() + 0.5 * -(1 - p[2]).log())
    assert_close(sums.positive, torch.stack([3 * (1 - p[0]), 3 * (1 - p[1]), 0 * p[2]]))
    assert_close(sums.negative, torch.stack([0 * p[0], 0 * p[1], 0.5 * p[2]]))


def test_quality_of_multi_label_targets_may_be_given_for_each_entry():
    logits = torch.randn(4, 3, dtype=torch.float64)
    targets = torch.rand(4, 3) > 0.5
    quality = torch.rand(4, dtype=torch.float64)
    for_each = quality.unsqueeze(1).expand(4, 3)
    assert_close(
        functional.binary_cross_entropy(logits, targets, focus=2.0, quality=for_each)[0],
        functional.binary_cross_entropy(logits, targets, focus=2.0, quality=quality)[0],
    )


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("value", [1e4, -1e4, 100.0, -100.0, 20.0, 88.5, -88.5, -104.0])
def test_extreme_logits_give_finite_loss_and_gradient_in_float32(formula, value):
    batch = Batch(formula, 5, 4, (), seed=3)
    batch.focus *= 3
    logits = torch.randn(5, 4)
    logits[:, 0] = value
    logits[0] = value
    loss, sums = batch.ours(logits.requires_grad_())
    (gradient,) = torch.autograd.grad(loss, logits)
    for result in (loss, gradient, sums.positive, sums.negative):
        assert result.isfinite().all()


@pytest.mark.parametrize("formula", FORMULAS)
def test_float32_agrees_with_float64(formula):
    batch = Batch(formula, 64, 50, (), seed=4, spread=8.0)
    loss, sums = batch.ours()
    (gradient,) = torch.autograd.grad(loss, batch.logits)
    logits = batch.logits.detach().float().requires_grad_()
    loss32, sums32 = batch.ours(logits)
    (gradient32,) = torch.autograd.grad(loss32, logits)
    assert_close(loss32.double(), loss, rtol=1e-5, atol=0)
    assert_close(gradient32.double(), gradient, rtol=2e-4, atol=1e-9)
    assert_close(sums32.positive, sums.positive, rtol=1e-5, atol=1e-9)
    assert_close(sums32.negative, sums.negative, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("formula", ["bce", "focal"])
@pytest.mark.parametrize("logit", [25.0, 60.0, 95.0])
def test_large_logits_of_negatives_agree_with_float64(formula, logit):
    """Where the odds of one sample, or the product of those of four, are above the largest float32."""
    batch = Batch(formula, 9, 50, (), seed=4, spread=8.0)
    with torch.no_grad():
        batch.logits[:, ::3] = logit
    batch.labels.fill_(BACKGROUND)
    loss, sums = batch.ours()
    (gradient,) = torch.autograd.grad(loss, batch.logits)
    logits = batch.logits.detach().float().requires_grad_()
    loss32, sums32 = batch.ours(logits)
    assert_close(loss32.double(), loss, rtol=1e-5, atol=0)
    assert_close(torch.autograd.grad(loss32, logits)[0].double(), gradient, rtol=2e-4, atol=1e-9)
    assert_close(sums32.negative, sums.negative, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("places", [(), (3,)])
def test_half_precision_logits_are_computed_in_float32(formula, dtype, places):
    batch = Batch(formula, 40, 7, places, seed=5)
    half = batch.logits.detach().to(dtype).requires_grad_()
    single = half.detach().float().requires_grad_()
    loss, sums = batch.ours(half)
    expected, expected_sums = batch.ours(single)
    assert loss.dtype == torch.float32
    assert_close(loss, expected)
    assert_close(sums.negative, expected_sums.negative, rtol=1e-5, atol=1e-6)
    (gradient,) = torch.autograd.grad(loss, half)
    assert gradient.dtype == dtype
    assert_close(gradient.float(), torch.autograd.grad(expected, single)[0], rtol=1e-2, atol=1e-4)


def test_a_scaled_half_precision_loss_keeps_gradients_that_float16_alone_would_lose():
    rows, scale = 4096, 65536.0
    logits = torch.full((rows, 2), -6.0, dtype=torch.float16, requires_grad=True)
    loss, _ = functional.binary_cross_entropy(logits, torch.full((rows,), BACKGROUND))
    (scale * loss).backward()
    expected = torch.sigmoid(torch.tensor(-6.0)) / rows * scale
    assert_close(logits.grad.float(), torch.full((rows, 2), float(expected)), rtol=2e-3, atol=0)


@pytest.mark.parametrize("formula", FORMULAS)
def test_an_upstream_factor_scales_the_gradient_and_not_the_sums(formula):
    batch = Batch(formula, 6, 4, (2,), seed=6)
    loss, sums = batch.ours()
    (gradient,) = torch.autograd.grad(loss, batch.logits)
    scaled, scaled_sums = batch.ours()
    (scaled_gradient,) = torch.autograd.grad(7 * scaled, batch.logits)
    assert_close(scaled_gradient, 7 * gradient)
    assert_close(scaled_sums.positive, sums.positive)


def test_backward_may_be_repeated_on_a_retained_graph():
    batch = Batch("focal", 6, 4, (), seed=7)
    loss, _ = batch.ours()
    first = torch.autograd.grad(3 * loss, batch.logits, retain_graph=True)[0].clone()
    second = torch.autograd.grad(3 * loss, batch.logits)[0]
    assert_close(second, first)


def test_double_backward_is_refused():
    batch = Batch("bce", 3, 4, (), seed=8)
    (gradient,) = torch.autograd.grad(batch.ours()[0], batch.logits, create_graph=True)
    with pytest.raises(RuntimeError, match=r'differentiated twice.*Use reduction="none"'):
        gradient.sum().backward()


@pytest.mark.parametrize("is_leaf", [True, False])
def test_a_second_derivative_is_refused_even_where_an_unused_input_would_be_allowed(is_leaf):
    batch = Batch("softmax", 3, 4, (2,), seed=8)
    loss, _ = batch.ours(batch.logits if is_leaf else 2 * batch.logits)
    (gradient,) = torch.autograd.grad(loss, batch.logits, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiated twice"):
        torch.autograd.grad(gradient.square().sum(), batch.logits, allow_unused=True)


def test_nothing_logits_sized_but_the_gradient_outlives_the_forward_pass():
    logits = torch.randn(50, 41, requires_grad=True)
    loss, _ = functional.cross_entropy(2 * logits, torch.zeros(50, dtype=torch.int64))
    assert sizes_alive(50 * 41) == ["leaf", "gradient"]
    loss.backward()  # `loss` lives on until the next step, what it kept does not
    assert sizes_alive(50 * 41) == ["leaf"]
    assert logits.grad is not None


def sizes_alive(numel):
    """The tensors of a size that Python knows, except for gradients of leaves."""
    gc.collect()
    alive = [t for t in gc.get_objects() if type(t) is torch.Tensor and t.numel() == numel]
    gradients = {t.grad.data_ptr() for t in alive if t.requires_grad and t.is_leaf and t.grad is not None}
    kinds = ["leaf" if t.requires_grad else "gradient" for t in alive if t.data_ptr() not in gradients]
    return sorted(kinds, reverse=True)


def test_a_leaf_receives_the_gradient_itself_without_a_copy(monkeypatch):
    kept = []
    original = blockwise.BlockwisePass.gradient_sums
    monkeypatch.setattr(
        blockwise.BlockwisePass,
        "gradient_sums",
        lambda self: (kept.append(self.gradient.data_ptr()), original(self))[1],
    )
    logits = torch.randn(5, 3, requires_grad=True)
    functional.cross_entropy(logits, torch.tensor([0, 1, 2, 0, 1]))[0].backward()
    assert logits.grad.data_ptr() == kept[0]


def test_no_gradient_is_formed_where_none_is_wanted():
    loss, _ = functional.binary_cross_entropy(torch.randn(4, 3), torch.tensor([0, 1, 2, -1]))
    assert not loss.requires_grad
    with torch.no_grad():
        loss, _ = functional.binary_cross_entropy(torch.randn(4, 3, requires_grad=True), torch.tensor([0, 1, 2, -1]))
    assert not loss.requires_grad


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("num_samples", [0, 3])
def test_empty_and_ignored_batches_give_a_zero_that_back_propagates(formula, num_samples):
    batch = Batch(formula, num_samples, 4, (2,), seed=9)
    batch.labels.fill_(IGNORE)
    loss, sums = batch.ours()
    loss.backward()
    assert loss.item() == 0
    assert_close(batch.logits.grad, torch.zeros_like(batch.logits))
    assert sums.positive.sum() == sums.negative.sum() == 0


def test_what_ignored_rows_hold_leaves_no_trace_not_even_nan():
    logits = torch.tensor([[1.0, 2.0], [torch.nan, torch.inf]], requires_grad=True)
    for loss, sums in (
        functional.binary_cross_entropy(logits, torch.tensor([0, IGNORE])),
        functional.cross_entropy(logits, torch.tensor([0, IGNORE])),
    ):
        (gradient,) = torch.autograd.grad(loss, logits)
        assert loss.isfinite()
        assert gradient.isfinite().all()
        assert_close(gradient[1], torch.zeros(2))
        assert sums.negative.isfinite().all()


def test_mean_divides_by_counted_samples_and_a_normalizer_overrides_it():
    logits, labels = torch.randn(5, 3), torch.tensor([0, IGNORE, 2, BACKGROUND, IGNORE])
    total, sums = functional.binary_cross_entropy(logits, labels, reduction="sum")
    mean, mean_sums = functional.binary_cross_entropy(logits, labels)
    normalized, normalized_sums = functional.binary_cross_entropy(logits, labels, normalizer=torch.tensor(4.0))
    assert_close(mean, total / 3)
    assert_close(normalized, total / 4)
    assert sums.divisor is None
    assert mean_sums.divisor == 3
    assert normalized_sums.divisor == 4
    assert_close(mean_sums.negative, sums.negative)


@pytest.mark.parametrize("kernels", ["blocks", "torch"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("focus", [None, 2.0])
def test_a_scale_needs_no_margin(kernels, dtype, focus, monkeypatch):
    monkeypatch.setenv("EQUIGRAD_KERNELS", kernels)
    logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=dtype).requires_grad_()
    labels = torch.tensor([0, 2, BACKGROUND, 1, 1])
    results = []
    for scaled, scale in ((logits, 3.0), (3.0 * logits, 1.0)):
        loss, sums = functional.binary_cross_entropy(scaled, labels, focus=focus, scale=scale)
        gradient, factor = torch.autograd.grad(loss, logits)[0], 3.0 / scale
        results.append((loss.detach(), gradient, factor * sums.positive, factor * sums.negative))
    assert_close(*results, rtol=1e-5, atol=1e-6)
