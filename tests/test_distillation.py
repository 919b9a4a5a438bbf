"""DIVE: labels and the flattened predictions of a teacher."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.testing import assert_close

from equigrad import (
    IGNORE,
    BalancedSoftmaxLoss,
    BinaryCrossEntropyLoss,
    CrossEntropyLoss,
    DistillationLoss,
    FrozenTeacher,
    SoftmaxEqualizationLoss,
)

COUNTS = [100, 40, 8, 1]


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def batch(*shape, seed=0, dtype=torch.float64):
    shape = shape or (12,)
    generator = torch.Generator().manual_seed(seed)
    logits, teacher = (
        3 * torch.randn(shape[0], 4, *shape[1:], generator=generator, dtype=torch.float64) for _ in range(2)
    )
    labels = torch.randint(4, shape, generator=generator)
    labels.view(-1)[1::5] = IGNORE
    return logits.to(dtype).requires_grad_(), labels, teacher.to(dtype)


def run(criterion, logits, *inputs, **options):
    loss = criterion(logits, *inputs, **options)
    return loss.detach(), torch.autograd.grad(loss, logits)[0]


def test_dive_gives_the_published_numbers(golden):
    case = golden("dive")
    hyper = case["hyper"]
    logits, labels = tensor(case["student_logits"]).requires_grad_(), torch.tensor(case["labels"])
    teacher = tensor(case["teacher_logits"])
    base = BalancedSoftmaxLoss(case["class_counts"])
    options = {"temperature": hyper["temperature"], "power": hyper["power"]}
    loss, gradient = run(DistillationLoss(base, weight=hyper["alpha"], **options), logits, labels, teacher)
    assert_close(loss, tensor(case["loss_value"]), rtol=1e-9, atol=0)
    assert_close(gradient, tensor(case["grad_student"]), rtol=1e-9, atol=1e-11)
    divergence, _ = run(DistillationLoss(base, weight=1, **options), logits, labels, teacher)
    assert_close(divergence, tensor(case["kl_term"]), rtol=1e-9, atol=0)


def test_the_divergence_by_hand():
    # T = 1, rho = 1: teacher (3/4, 1/4), student (1/2, 1/2).
    criterion = DistillationLoss(CrossEntropyLoss(), weight=1, temperature=1, power=1)
    teacher = tensor([[math.log(3), 0.0]])
    expected = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    assert_close(criterion(torch.zeros_like(teacher), torch.tensor([0]), teacher), tensor(expected))


@given(seed=st.integers(0, 2**16), weight=st.floats(0, 1), temperature=st.floats(0.5, 10), power=st.floats(0, 2))
@settings(max_examples=30)
def test_value_and_gradient_are_those_of_the_plain_formula(seed, weight, temperature, power):
    logits, labels, teacher = batch(seed=seed)
    counted = labels != IGNORE
    target = (teacher[counted] / temperature).softmax(1) ** power
    target = target / target.sum(1, keepdim=True)
    student = (logits[counted] / temperature).log_softmax(1)
    divergence = F.kl_div(student, target, reduction="batchmean") * temperature**2
    base = F.cross_entropy(logits[counted] + tensor(COUNTS).log(), labels[counted])
    expected = (1 - weight) * base + weight * divergence
    (expected_gradient,) = torch.autograd.grad(expected, logits)
    criterion = DistillationLoss(BalancedSoftmaxLoss(COUNTS), weight=weight, temperature=temperature, power=power)
    loss, gradient = run(criterion, logits, labels, teacher)
    assert_close(loss, expected.detach(), rtol=1e-9, atol=1e-12)
    assert_close(gradient, expected_gradient, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("make_base", [lambda: BalancedSoftmaxLoss(COUNTS), lambda: SoftmaxEqualizationLoss(4)])
def test_weight_zero_is_the_base(make_base):
    logits, labels, teacher = batch()
    distilled = run(DistillationLoss(make_base(), weight=0), logits, labels, teacher)
    assert_close(distilled, run(make_base(), logits, labels), rtol=0, atol=0)


def test_a_student_that_equals_its_unflattened_teacher_learns_nothing_from_it():
    logits, labels, _ = batch()
    criterion = DistillationLoss(CrossEntropyLoss(), weight=1, power=1)
    loss, gradient = run(criterion, logits, labels, logits.detach().clone())
    assert_close(loss, tensor(0.0), rtol=0, atol=1e-12)
    assert_close(gradient, torch.zeros_like(gradient), rtol=0, atol=1e-12)


def test_only_the_base_enters_the_statistics():
    logits, labels, teacher = batch()
    alone = SoftmaxEqualizationLoss(4)
    criterion = DistillationLoss(SoftmaxEqualizationLoss(4), weight=0.7)
    for _ in range(2):
        alone(logits, labels)
        criterion(logits, labels, teacher)
    assert criterion.base.statistics.positive.any()
    assert_close(criterion.base.statistics.positive, alone.statistics.positive, rtol=0, atol=0)
    assert_close(criterion.base.statistics.negative, alone.statistics.negative, rtol=0, atol=0)


def test_the_statistics_of_the_base_survive_a_checkpoint():
    criterion = DistillationLoss(SoftmaxEqualizationLoss(4))
    criterion(*batch())
    restored = DistillationLoss(SoftmaxEqualizationLoss(4))
    restored.load_state_dict(criterion.state_dict())
    assert_close(restored.base.category_weights(), criterion.base.category_weights(), rtol=0, atol=0)


def test_evaluation_leaves_the_state_alone():
    criterion = DistillationLoss(SoftmaxEqualizationLoss(4)).eval()
    criterion(*batch())
    assert not criterion.base.statistics.positive.any()


def test_mean_sum_and_normalizer_are_multiples():
    logits, labels, teacher = batch()
    mean = run(DistillationLoss(CrossEntropyLoss()), logits, labels, teacher)
    summed = run(DistillationLoss(CrossEntropyLoss(reduction="sum")), logits, labels, teacher)
    divided = run(DistillationLoss(CrossEntropyLoss()), logits, labels, teacher, normalizer=2.5)
    for a, b, c in zip(mean, summed, divided, strict=True):
        assert_close(a * (labels != IGNORE).sum(), b)
        assert_close(b / 2.5, c)


@pytest.mark.parametrize("kind", ["empty", "all_ignored"])
def test_a_batch_without_samples_gives_zero_that_backpropagates(kind):
    logits, labels, teacher = batch(0 if kind == "empty" else 3)
    labels.fill_(IGNORE)
    loss, gradient = run(DistillationLoss(CrossEntropyLoss()), logits, labels, teacher)
    assert loss == 0
    assert_close(gradient, torch.zeros_like(gradient))


def test_extreme_logits_stay_finite():
    logits, labels, teacher = batch()
    extreme = (logits.detach().float().sign() * 1e4).requires_grad_()
    loss, gradient = run(DistillationLoss(BalancedSoftmaxLoss(COUNTS)), extreme, labels, teacher.float().sign() * -1e4)
    assert loss.isfinite()
    assert gradient.isfinite().all()
    assert gradient.any()


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_images_equal_rows(layout):
    logits, labels, teacher = batch(2, 3, 5)
    rows, teacher_rows = (z.detach().movedim(1, -1).reshape(-1, 4) for z in (logits, teacher))
    if layout == "channels_last":  # of the student alone: the teacher may come in another layout
        logits = logits.detach().to(memory_format=torch.channels_last).requires_grad_()
    criterion = DistillationLoss(CrossEntropyLoss())
    loss, gradient = run(criterion, logits, labels, teacher)
    expected, expected_gradient = run(criterion, rows.requires_grad_(), labels.flatten(), teacher_rows)
    assert_close(loss, expected)
    assert_close(gradient.movedim(1, -1).reshape(-1, 4), expected_gradient)


def test_blocks_change_nothing(monkeypatch):
    logits, labels, teacher = batch(29)
    criterion = DistillationLoss(BalancedSoftmaxLoss(COUNTS))
    expected = run(criterion, logits, labels, teacher)
    monkeypatch.setattr("equigrad.losses.blockwise.MAX_BLOCK_ELEMENTS", 12)  # three samples
    assert_close(run(criterion, logits, labels, teacher), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(dtype):
    logits, labels, teacher = batch(dtype=dtype)
    criterion = DistillationLoss(BalancedSoftmaxLoss(COUNTS))
    loss, gradient = run(criterion, logits, labels, teacher)
    exact = logits.detach().double().requires_grad_()
    expected, expected_gradient = run(criterion, exact, labels, teacher.double())
    assert loss.dtype == torch.float32
    assert gradient.dtype == dtype
    assert_close(loss.double(), expected, rtol=1e-4, atol=1e-5)
    assert_close(gradient.double(), expected_gradient, rtol=2e-2, atol=1e-3)


@pytest.mark.parametrize(
    ("teacher", "error", "message"),
    [
        (torch.zeros(12, 5), ValueError, r"shape \(12, 4\).*of shape \(12, 5\)"),
        (torch.zeros(12, 4, dtype=torch.int64), ValueError, "floating point"),
        (None, TypeError, "teacher_logits must be a Tensor"),
    ],
)
def test_wrong_teachers_are_refused_before_any_statistics_move(teacher, error, message):
    logits, labels, _ = batch()
    criterion = DistillationLoss(SoftmaxEqualizationLoss(4))
    with pytest.raises(error, match=message):
        criterion(logits, labels, teacher)
    assert not criterion.base.statistics.positive.any()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: DistillationLoss(BinaryCrossEntropyLoss()), TypeError, "base must be a softmax loss"),
        (lambda: DistillationLoss(nn.CrossEntropyLoss()), TypeError, "base must be a softmax loss"),
        (lambda: DistillationLoss(CrossEntropyLoss(), weight=1.1), ValueError, r"weight must be within \[0, 1\]"),
        (lambda: DistillationLoss(CrossEntropyLoss(), temperature=0), ValueError, "temperature"),
        (lambda: DistillationLoss(CrossEntropyLoss(), power=-1), ValueError, "power"),
    ],
)
def test_wrong_arguments_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_a_frozen_teacher_stays_as_it_is():
    model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 4))
    teacher = FrozenTeacher(model).train()
    before = copy.deepcopy(model.state_dict())
    images = torch.randn(6, 3, requires_grad=True)
    first, second = teacher(images), teacher(images)
    assert_close(first, second, rtol=0, atol=0)  # no dropout
    assert not first.requires_grad
    assert not any(parameter.requires_grad for parameter in teacher.parameters())
    assert_close(dict(model.state_dict()), dict(before), rtol=0, atol=0)  # no moving averages
