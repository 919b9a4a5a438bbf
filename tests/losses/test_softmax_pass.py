"""Logits of any size; soft labels and label smoothing."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given, strategies as st
from torch.testing import assert_close

import equigrad
from equigrad import IGNORE, CrossEntropyLoss, SoftmaxEqualizationLoss
from equigrad.losses import functional, reference
from losses.all_losses import CASES, COUNTS

TAKES_SOFT = ["CE", "weighted CE", "Softmax-EQL", "Balanced Softmax", "Logit Adjustment", "DIVE"]
REFUSES_SOFT = {
    "LADE": "averages over the samples of each category",
    "Seesaw": "depend on the one category of a sample",
    "LDAM": "the margin is that of the one category",
    "BAGS": "chosen by the one category of a sample",
}


def probabilities(logits):
    generator = torch.Generator().manual_seed(5)
    return torch.rand(logits.shape, generator=generator, dtype=torch.float64).mul_(3).softmax(1)


def run(loss, logits, *rest):
    value = loss(logits, *rest)
    return value.detach(), torch.autograd.grad(value, logits)[0]


@given(own=st.floats(-150, 150, width=32), other=st.floats(-150, 150, width=32))
@example(own=-45.9, other=45.9)  # e^z of each is a float32, their quotient is not
@example(own=-44.0, other=45.9)
def test_logits_of_any_distance_have_the_loss_and_gradient_of_torch(own, other):
    logits = torch.tensor([[own, other, 0.0]], requires_grad=True)
    exact = logits.detach().double().requires_grad_()
    expected = run(F.cross_entropy, exact, torch.tensor([0]))
    value, gradient = run(CrossEntropyLoss(), logits, torch.tensor([0]))
    assert_close(value.double(), expected[0], rtol=1e-5, atol=1e-6)
    assert_close(gradient.double(), expected[1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", TAKES_SOFT)
@pytest.mark.parametrize("shape", [(13,), (3, 2, 4)])
def test_one_hot_soft_labels_are_class_indices(name, shape):
    case = CASES[name]
    batch = case.batch(*shape)
    batch.labels[batch.labels == IGNORE] = 0
    soft = F.one_hot(batch.labels, 4).movedim(-1, 1).double()
    by_index, by_probability = case.build(), case.build()
    expected = run(by_index, *batch)
    assert_close(run(by_probability, batch.logits, soft, *batch.extra), expected)
    assert_close(by_probability.state_dict(), by_index.state_dict())


@pytest.mark.parametrize("name", TAKES_SOFT)
@pytest.mark.parametrize("shape", [(13,), (3, 2, 4)])
def test_loss_and_gradient_of_soft_labels_are_those_of_the_plain_formula(name, shape):
    case = CASES[name]
    batch = case.batch(*shape)
    soft = probabilities(batch.logits)
    expected = case.build(reduction="none")(batch.logits, soft, *batch.extra).mean()
    assert_close(case.build()(batch.logits, soft, *batch.extra), expected)
    assert_close(run(case.build(), batch.logits, soft, *batch.extra)[1], torch.autograd.grad(expected, batch.logits)[0])


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("weight", [None, [0.5, 1.0, 2.0, 3.0]])
@pytest.mark.parametrize("is_soft", [True, False])
def test_smoothing_is_that_of_torch(smoothing, weight, is_soft):
    batch = CASES["CE"].batch(3, 2, 4)
    labels = probabilities(batch.logits) if is_soft else batch.labels
    loss = CrossEntropyLoss(weight=weight, label_smoothing=smoothing, reduction="sum")
    weight = None if weight is None else torch.tensor(weight, dtype=torch.float64)
    expected = F.cross_entropy(batch.logits, labels, weight, label_smoothing=smoothing, reduction="sum")
    value, gradient = run(loss, batch.logits, labels)
    assert_close(value, expected)
    assert_close(gradient, torch.autograd.grad(expected, batch.logits)[0])


@pytest.mark.parametrize("name", ["Softmax-EQL", "Balanced Softmax", "Logit Adjustment"])
def test_smoothing_counts_the_samples_that_are_not_ignored(name):
    batch = CASES[name].batch()
    values = CASES[name].build(label_smoothing=0.2, reduction="none")(*batch)
    loss = CASES[name].build(label_smoothing=0.2)(*batch)
    assert_close(loss, values.sum() / (batch.labels != IGNORE).sum())


def test_the_record_of_a_soft_label_by_hand():
    """Half of category 0, half of 1, with p = (1/2, 1/4, 1/4)."""
    loss = SoftmaxEqualizationLoss(3)
    logits = torch.tensor([[math.log(2), 0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    loss(logits, torch.tensor([[0.5, 0.5, 0.0]], dtype=torch.float64)).backward()
    assert_close(loss.statistics.positive.tolist(), [0.5 * 0.5, 0.5 * 0.75, 0.0])
    assert_close(loss.statistics.negative.tolist(), [0.5 * 0.5, 0.25 * 0.5, 0.25])
    assert_close(logits.grad[0], loss.statistics.negative - loss.statistics.positive)


def test_a_soft_label_is_recorded_as_one_sample_of_each_category_with_its_probability():
    logits = torch.randn(6, 4, dtype=torch.float64)
    soft = probabilities(logits)
    _, sums = functional.cross_entropy(logits, soft, reduction="sum")
    positive, negative = torch.zeros(4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
    for row, target in zip(logits, soft, strict=True):
        for category in range(4):
            _, each = functional.cross_entropy(row.view(1, 4), torch.tensor([category]), reduction="sum")
            positive += target[category] * each.positive
            negative += target[category] * each.negative
    assert_close(sums.positive, positive)
    assert_close(sums.negative, negative)


def test_a_mixed_batch_in_float32_agrees_with_float64_block_by_block(monkeypatch):
    logits = 5 * torch.randn(300, 7, dtype=torch.float64)
    soft = probabilities(logits)
    expected, sums = functional.cross_entropy(logits, soft)
    monkeypatch.setattr("equigrad.losses.blockwise.MAX_BLOCK_ELEMENTS", 70)
    monkeypatch.setattr("equigrad.losses.blockwise.MIN_BLOCK_ELEMENTS", 1)
    single = logits.float().requires_grad_()
    value, single_sums = functional.cross_entropy(single, soft.float())
    value.backward()
    assert_close(value.double(), expected, rtol=1e-5, atol=0)
    assert_close(single_sums.negative, sums.negative, rtol=1e-5, atol=1e-6)
    gradient = torch.autograd.grad(reference.cross_entropy(logits.requires_grad_(), soft).mean(), logits)[0]
    assert_close(single.grad.double(), gradient, rtol=1e-3, atol=1e-8)


@pytest.mark.parametrize("name", REFUSES_SOFT)
def test_a_loss_without_soft_labels_says_why(name):
    batch = CASES[name].batch()
    with pytest.raises(ValueError, match=f"soft labels are not defined here: .*{REFUSES_SOFT[name]}"):
        CASES[name].build()(batch.logits, batch.logits.detach().softmax(1))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0.5, 0.6, -0.1, 0.0], r"must be probabilities, finite and >= 0; got -0.1"),
        ([0.5, math.nan, 0.0, 0.0], "must be probabilities, finite and >= 0; got nan"),
        ([0.5, 0.25, 0.0, 0.0], r"of a sample must add up to 1; got 0.75"),
    ],
)
def test_what_is_no_distribution_is_refused(row, message):
    with pytest.raises(ValueError, match=message):
        equigrad.BalancedSoftmaxLoss(COUNTS)(torch.zeros(1, 4), torch.tensor([row]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_probabilities_rounded_to_half_precision_are_fine(dtype):
    soft = torch.rand(1000, 4).softmax(1).to(dtype)
    assert CrossEntropyLoss()(torch.zeros(1000, 4), soft).item() == pytest.approx(math.log(4), rel=1e-3)


@pytest.mark.parametrize("smoothing", [1.0, -0.1, math.nan])
def test_a_smoothing_outside_its_range_is_refused(smoothing):
    with pytest.raises(ValueError, match="label_smoothing must be"):
        SoftmaxEqualizationLoss(4, label_smoothing=smoothing)


def test_the_margin_of_a_smoothed_label_lowers_its_own_logit():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(9, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0, 1, 2, 3, IGNORE, 0, 3, 3, 1])
    label_margin = torch.tensor([0.5, 1.0, 2.0, 4.0], dtype=torch.float64)
    own = F.one_hot(labels.clamp(min=0), 4) * label_margin
    expected = F.cross_entropy(3 * logits - own, labels, label_smoothing=0.2)
    loss, sums = functional.cross_entropy(logits, labels, label_margin=label_margin, scale=3.0, label_smoothing=0.2)
    assert_close(loss, expected)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert_close(gradient, torch.autograd.grad(expected, logits)[0])
    assert_close((sums.negative - sums.positive) / sums.divisor, gradient.sum(0))
