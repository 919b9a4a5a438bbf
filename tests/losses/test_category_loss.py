"""What every loss of the package has in common: reductions, ignored labels, second derivatives."""

import copy

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

import equigrad
from equigrad import IGNORE, GradientStatistics
from losses.all_losses import CASES

all_cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
# BAGS divides each of its groups apart, so that its mean is not that of its samples.
means_of_samples = pytest.mark.parametrize("case", [c for n, c in CASES.items() if n != "BAGS"])


def recorded(loss: nn.Module) -> list[torch.Tensor]:
    statistics = [part for part in loss.modules() if isinstance(part, GradientStatistics)]
    return [sums for part in statistics for sums in (part.positive, part.negative)]


@all_cases
@pytest.mark.parametrize("shape", [(13,), (3, 2, 4)])
def test_none_gives_one_value_for_each_sample_and_their_sum_is_the_sum(case, shape):
    batch = case.batch(*shape)
    values = case.build(reduction="none")(*batch)
    assert values.shape == batch.labels.shape
    assert values.dtype == torch.float64
    assert (values[batch.labels == IGNORE] == 0).all()
    assert (values[batch.labels != IGNORE] != 0).all()
    total = case.build(reduction="sum")(*batch)
    assert_close(values.sum(), total)
    assert_close(torch.autograd.grad(values.sum(), batch.logits), torch.autograd.grad(total, batch.logits))


@means_of_samples
def test_the_mean_is_that_of_the_values_that_count(case):
    batch = case.batch()
    loss = case.build(reduction="mean")
    if loss.__class__ is equigrad.WithObjectness and not loss.loss.takes_background:
        batch.labels[batch.labels == equigrad.BACKGROUND] = 0  # its two parts count different samples
    values = case.build(reduction="none")(*batch)
    assert_close(loss(*batch), values.sum() / (batch.labels != IGNORE).sum())


@all_cases
def test_none_moves_the_statistics_like_the_sum(case):
    values, total = case.build(reduction="none"), case.build(reduction="sum")
    before = [sums.clone() for sums in recorded(values)]
    values(*case.batch())
    total(*case.batch())
    assert_close(recorded(values), recorded(total))
    assert all((now > then).any() for now, then in zip(recorded(values), before, strict=True))


@all_cases
def test_half_precision_logits_give_float32_values(case):
    batch = case.batch(dtype=torch.bfloat16)
    values = case.build(reduction="none")(*batch)
    assert values.dtype == torch.float32
    (gradient,) = torch.autograd.grad(values.sum(), batch.logits)
    assert gradient.dtype == torch.bfloat16


@all_cases
def test_what_ignored_rows_hold_leaves_no_trace_in_the_values(case):
    batch = case.batch()
    logits = batch.logits.detach().masked_fill(batch.labels.unsqueeze(1) == IGNORE, torch.nan).requires_grad_()
    values = case.build(reduction="none")(logits, batch.labels, *batch.extra)
    (gradient,) = torch.autograd.grad(values.sum(), logits)
    assert values.isfinite().all()
    assert gradient.isfinite().all()


@all_cases
def test_none_refuses_a_normalizer(case):
    with pytest.raises(ValueError, match="divide the values yourself"):
        case.build(reduction="none")(*case.batch(), normalizer=3.0)


@all_cases
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("ignore_index", [255, -7])
def test_any_number_may_stand_for_ignored_samples(case, reduction, ignore_index):
    batch = case.batch(3, 5)
    expected_loss, loss = case.build(reduction=reduction), case.build(reduction=reduction, ignore_index=ignore_index)
    expected = expected_loss(*batch)
    (expected_gradient,) = torch.autograd.grad(expected.sum(), batch.logits)
    batch.labels = torch.where(batch.labels == IGNORE, ignore_index, batch.labels)
    before = batch.labels.clone()
    value = loss(*batch)
    (gradient,) = torch.autograd.grad(value.sum(), batch.logits)
    assert_close(value, expected, rtol=0, atol=0)
    assert_close(gradient, expected_gradient, rtol=0, atol=0)
    assert_close(recorded(loss), recorded(expected_loss), rtol=0, atol=0)
    assert torch.equal(batch.labels, before)


@all_cases
def test_with_another_ignore_index_the_default_is_out_of_range(case):
    with pytest.raises(ValueError, match=r"labels must be 0 ... 3.* ignore_index \(255\).*got -100"):
        case.build(ignore_index=255)(*case.batch())


@all_cases
def test_a_category_may_be_the_ignored_one(case):
    batch = case.batch()
    expected = case.build()(batch.logits, torch.where(batch.labels == 2, IGNORE, batch.labels), *batch.extra)
    labels = torch.where(batch.labels == IGNORE, 2, batch.labels)
    assert_close(case.build(ignore_index=2)(batch.logits, labels, *batch.extra), expected)


@pytest.mark.parametrize("ignore_index", [2.0, True, None])
def test_an_ignore_index_that_is_no_int_is_refused(ignore_index):
    with pytest.raises(TypeError, match="ignore_index must be an int"):
        equigrad.CrossEntropyLoss(ignore_index=ignore_index)


@all_cases
def test_values_can_be_differentiated_twice(case):
    batch = case.batch(4)
    loss = case.build(reduction="none").eval()
    # Some factors are constants of the step, and a probe of the derivative would see them move.
    if isinstance(loss, equigrad.SeesawLoss) or getattr(loss, "constant_weight", False):
        (gradient,) = torch.autograd.grad(loss(*batch).sum(), batch.logits, create_graph=True)
        (second,) = torch.autograd.grad(gradient.square().sum(), batch.logits)
        assert second.abs().sum() > 0
        return
    torch.autograd.gradgradcheck(lambda logits: loss(logits, batch.labels, *batch.extra), batch.logits)


@all_cases
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_second_derivative_of_a_fused_loss_is_refused_and_the_way_out_is_named(case, reduction):
    batch = case.batch()
    loss = case.build(reduction=reduction)(*batch)
    (gradient,) = torch.autograd.grad(loss, batch.logits, create_graph=True)
    with pytest.raises(RuntimeError, match=r'differentiated twice.*reduction="none".*equigrad.losses.reference'):
        torch.autograd.grad(gradient.square().sum(), batch.logits, allow_unused=True)


def test_a_subclass_of_the_public_base_gathers_statistics_and_saves_them():
    class Halved(equigrad.EqualizationLoss):
        def forward(self, logits, labels, *, normalizer=None):
            from equigrad.losses import functional

            loss, gradient_sums = functional.binary_cross_entropy(logits, labels, 0.5, 0.5, **self.options(normalizer))
            self.record(gradient_sums)
            return loss

    loss = Halved(2, half_life=None, reduction="mean")
    loss(torch.zeros(1, 2, requires_grad=True), torch.tensor([0]))
    assert loss.statistics.positive.tolist() == [0.25, 0.0]
    assert list(loss.state_dict()) == ["statistics.positive", "statistics.negative", "statistics.skipped"]


# ---- activation checkpointing


@all_cases
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_checkpointed_loss_has_the_same_gradient_and_counts_once(case, use_reentrant):
    plain, checkpointed = case.build(), case.build()
    plain_layer = nn.Linear(case.num_logits, case.num_logits).double()
    layer = copy.deepcopy(plain_layer)
    for seed in range(3):
        batch = case.batch(seed=seed)
        loss = plain(plain_layer(batch.logits), batch.labels, *batch.extra)
        gradient = torch.autograd.grad(loss, plain_layer.weight)[0]

        def forward(logits, batch=batch):
            return checkpointed(layer(logits), batch.labels, *batch.extra)

        again = checkpoint(forward, batch.logits, use_reentrant=use_reentrant)
        layer.zero_grad()
        again.backward()
        if not use_reentrant:  # the first pass of the other runs without gradients: its value is one of evaluation
            assert_close(again, loss, rtol=0, atol=0)
        assert_close(layer.weight.grad, gradient, rtol=0, atol=0)
    assert_close(checkpointed.state_dict(), plain.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("name", ["Sigmoid-EQL", "Softmax-EQL", "EFL", "EQFL", "FL + EQL", "Seesaw", "LDAM"])
def test_values_for_each_sample_are_refused_inside_a_checkpoint(name):
    case = CASES[name]
    batch, loss = case.batch(), case.build(reduction="none")
    values = checkpoint(lambda z: loss(2 * z, batch.labels, *batch.extra), batch.logits, use_reentrant=False)
    with pytest.raises(RuntimeError, match=r"cannot be inside torch\.utils\.checkpoint"):
        values.sum().backward()


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_checkpointed_part_of_the_model_leaves_the_loss_as_it_is(use_reentrant):
    layer, plain, other = nn.Linear(4, 4), equigrad.SigmoidEqualizationLoss(4), equigrad.SigmoidEqualizationLoss(4)
    features, labels = torch.randn(5, 4, requires_grad=True), torch.tensor([0, 1, 2, 3, 0])
    for _ in range(2):
        expected = torch.autograd.grad(plain(layer(features), labels), features)
        part = checkpoint(layer, features, use_reentrant=use_reentrant)
        features.grad = None
        other(part, labels).backward()
        assert_close(features.grad, expected[0])
    assert_close(other.state_dict(), plain.state_dict())


def test_a_second_backward_says_how_to_keep_the_graph():
    loss = equigrad.SigmoidEqualizationLoss(4)(torch.randn(2, 4, requires_grad=True), torch.tensor([0, 1]))
    loss.backward(retain_graph=True)
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
