"""The plain formulas: values by hand, torch's own losses, and the papers' formulas sample by sample."""

import inspect
import math
import re

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import equigrad
from equigrad import BACKGROUND, IGNORE
from equigrad.losses import reference
from losses.gradients import one_hot

COUNTS = torch.tensor([100.0, 40.0, 8.0, 1.0], dtype=torch.float64)
PRIOR = COUNTS / COUNTS.sum()
LN2 = math.log(2)


def batch(seed=0, background=True):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(11, 4, generator=generator, dtype=torch.float64)
    labels = torch.randint(BACKGROUND if background else 0, 4, (11,), generator=generator)
    return logits.requires_grad_(), labels


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


# ---- one sample of two categories with z = 0, so that every p is 1/2 and every BCE is ln 2

Z = torch.zeros(1, 2, dtype=torch.float64)
Y = torch.tensor([0])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (reference.binary_cross_entropy(Z, Y), 2 * LN2),
        (reference.binary_cross_entropy(Z, Y, tensor(3.0, 5.0)), 3 * 2 * LN2),
        (reference.sigmoid_equalization(Z, Y, tensor(3.0, 9.0), tensor(9.0, 0.5)), (3 + 0.5) * LN2),
        (reference.focal(Z, Y, 2.0, 0.25), (0.25 + 0.75) * LN2 / 4),
        (reference.focal(Z, Y, 3.0, None, tensor(5.0, 7.0)), 5 * 2 * LN2 / 8),
        (reference.equalized_focal(Z, Y, tensor(1.0, 3.0), tensor(4.0, 8.0)), (0.25 * 4 / 2 + 0.75 * 8 / 8) * LN2),
        (reference.focal_equalization(Z, Y, tensor(3.0, 9.0), tensor(9.0, 0.5)), (0.25 * 3 + 0.75 * 0.5) * LN2 / 4),
        (reference.quality_focal(Z, Y, tensor(0.75)), (1 / 16 + 1 / 4) * LN2),
        (
            reference.equalized_quality_focal(Z, Y, tensor(0.75), tensor(1.0, 2.0), tensor(2.0, 3.0)),
            (2 / 4 + 3 / 4) * LN2,
        ),
        (reference.gradient_blocking(Z, Y, tensor(0.0, 1.0)), LN2),
        (reference.gradient_blocking(Z, Y + BACKGROUND, tensor(0.0, 1.0)), 2 * LN2),
        (reference.federated(Z, Y, tensor(1.0, 0.0)), LN2),
        (reference.objectness(Z, Y), LN2),
        (reference.cross_entropy(Z, Y), LN2),
        (reference.cross_entropy(Z, Y, tensor(3.0, 5.0)), 3 * LN2),
        (reference.softmax_equalization(Z, Y, tensor(3.0, 1.0).log()), math.log(4 / 3)),
        (reference.balanced_softmax(Z, Y, tensor(1.0, 3.0)), math.log(4)),
        (reference.logit_adjustment(Z, Y, tensor(0.2, 0.8), 2.0), math.log(17)),
        (reference.ldam(Z, Y, tensor(LN2, 9.0), 1.0, tensor(5.0, 9.0)), 5 * math.log(3)),
        (reference.grouped_softmax(Z, [Y], [2]), LN2),
        (reference.seesaw(Z, Y, tensor(4.0, 1.0), mitigation=1.0), math.log(1.25)),
        # M_1 = log mean e^0 / (C pi_j) = -log(2 pi_j) = 0, so that R = 0 on top of ln 2.
        (reference.lade(Z, Y, tensor(0.5, 0.5)), LN2),
        (reference.distillation(Z, Y, tensor(math.log(3), 0.0).view(1, 2), 1.0, 1.0), 0.75 * math.log(1.5) - LN2 / 4),
    ],
)
def test_a_sample_by_hand(value, expected):
    assert value.shape == (1,)
    assert value.item() == pytest.approx(expected, abs=1e-8)


# ---- against torch, and against the formulas of the papers written down for one sample at a time


def test_cross_entropy_is_that_of_torch_with_soft_labels_and_smoothing():
    logits, labels = batch(background=False)
    weight, soft = torch.rand(4, dtype=torch.float64), torch.rand(11, 4, dtype=torch.float64).softmax(1)
    for target in (labels, soft):
        for smoothing in (0.0, 0.3):
            expected = F.cross_entropy(logits, target, weight, reduction="none", label_smoothing=smoothing)
            assert_close(reference.cross_entropy(logits, target, weight, label_smoothing=smoothing), expected)


def test_binary_cross_entropy_is_that_of_torch():
    logits, labels = batch()
    expected = F.binary_cross_entropy_with_logits(logits, one_hot(labels, 4), reduction="none").sum(1)
    assert_close(reference.binary_cross_entropy(logits, labels), expected)
    assert_close(reference.binary_cross_entropy(logits, one_hot(labels, 4)), expected)


def test_focal_losses_are_the_products_of_their_factors():
    logits, labels = batch()
    y, p = one_hot(labels, 4), logits.sigmoid()
    p_t = torch.where(y == 1, p, 1 - p)
    focus = tensor(0.5, 1.0, 2.0, 5.0)
    expected = -(torch.where(y == 1, 0.3, 0.7) * (1 - p_t) ** focus * p_t.log()).sum(1)
    assert_close(reference.focal(logits, labels, focus, 0.3), expected)
    quality = torch.rand(11, dtype=torch.float64)
    target = y * quality.unsqueeze(1)
    cost = -target * p.log() - (1 - target) * (1 - p).log()
    expected = ((target - p).abs() ** focus * cost).sum(1)
    assert_close(reference.quality_focal(logits, labels, quality, focus), expected)


def test_seesaw_is_the_papers_fraction():
    logits, labels = batch(background=False)
    expected = []
    for z, y in zip(logits, labels, strict=True):
        p = z.softmax(0).detach()
        mitigation = (COUNTS / COUNTS[y]).clamp(max=1) ** 0.8
        compensation = (p / p[y].clamp(min=0.01)).clamp(min=1) ** 2.0
        expected.append(-(z[y].exp() / (mitigation * compensation * z.exp()).sum()).log())
    assert_close(reference.seesaw(logits, labels, COUNTS), torch.stack(expected))


def test_lade_adds_its_regulariser_to_every_sample():
    logits, labels = batch(background=False)
    labels[::4] = IGNORE
    z, y = logits[labels != IGNORE], labels[labels != IGNORE]
    regulariser = torch.zeros(())
    for j in range(4):
        own_mean = z[y == j, j].mean() if (y == j).any() else 0.0
        log_mean = (z[:, j].exp() / (4 * PRIOR[j])).mean().log()
        regulariser = regulariser - PRIOR[j] * (own_mean - log_mean - 0.3 * log_mean**2)
    values = reference.lade(logits, labels, PRIOR, 0.2, 0.3)
    expected = F.cross_entropy(z + PRIOR.log(), y, reduction="none") + 0.2 * regulariser
    assert_close(values[labels != IGNORE], expected, rtol=1e-6, atol=1e-6)  # LADE guards its divisions
    assert values[labels == IGNORE].tolist() == [0.0] * 3


def test_lade_of_an_ignored_batch_is_zero_and_back_propagates():
    logits, labels = batch()
    values = reference.lade(logits, torch.full_like(labels, IGNORE), PRIOR)
    values.sum().backward()
    assert values.abs().sum() == logits.grad.abs().sum() == 0


def test_ldam_lowers_the_own_logit():
    logits, labels = batch(background=False)
    margin = 0.5 * (COUNTS.min() / COUNTS) ** 0.25
    lowered = logits.clone()
    for row, label in enumerate(labels):
        lowered[row, label] -= margin[label]
    expected = F.cross_entropy(7 * lowered, labels, COUNTS, reduction="none")
    assert_close(reference.ldam(logits, labels, margin, 7.0, COUNTS), expected)


def test_ecm_is_the_papers_fraction():
    logits, labels = batch()
    positive, negative = COUNTS, 1000 - COUNTS
    total = positive**0.25 + negative**0.25
    up, down = logits.exp() * total / negative**0.25, (-logits).exp() * total / positive**0.25
    y, p = one_hot(labels, 4), up / (up + down)
    weight = negative / positive * (1 + positive / negative).log()
    expected = -(weight * (y * p.log() + (1 - y) * (1 - p).log())).sum(1)
    assert_close(reference.effective_class_margin(logits, labels, positive, negative), expected)


def test_the_distance_to_the_teacher_is_a_kl_divergence():
    (logits, labels), (teacher, _) = batch(background=False), batch(1)
    target = (teacher / 3).softmax(1) ** 0.5
    target = target / target.sum(1, keepdim=True)
    expected = 9 * F.kl_div((logits / 3).log_softmax(1), target, reduction="none").sum(1)
    assert_close(reference.distillation(logits, labels, teacher), expected)


def test_several_categories_weigh_a_sample_by_their_mean():
    targets = tensor(1.0, 1.0, 0.0).view(1, 3)
    value = reference.binary_cross_entropy(torch.zeros(1, 3, dtype=torch.float64), targets, tensor(2.0, 6.0, 50.0))
    assert value.item() == pytest.approx(4 * 3 * LN2)


def test_quality_of_each_entry_is_that_of_its_category():
    logits, _ = batch()
    targets, quality = torch.rand(11, 4) > 0.5, torch.rand(11, 4, dtype=torch.float64)
    expected = reference.quality_focal_costs(logits, torch.where(targets, quality, 0.0), 2.0).sum(1)
    assert_close(reference.quality_focal(logits, targets, quality), expected)


@pytest.mark.parametrize("focus", [0.0, 0.5, tensor(0.5, 2.0)])
def test_the_quality_focal_loss_has_a_derivative_where_the_quality_is_met(focus):
    logits = tensor(800.0, -800.0).view(1, 2).requires_grad_()  # p is 1 and 0, to the last bit
    value = reference.quality_focal(logits, torch.tensor([0]), tensor(1.0), focus)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    assert_close(value, tensor(0.0))
    assert_close(gradient, torch.zeros_like(logits))


def test_every_loss_has_its_formula():
    bases = {"CategoryLoss", "EqualizationLoss"}
    losses = {name for name in equigrad.__all__ if name.endswith("Loss")} - bases
    assert len(losses) >= 20
    formulas = {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.removesuffix("Loss")).lower() for name in losses}
    assert formulas | {"objectness"} <= vars(reference).keys()


def test_every_formula_says_which_loss_it_is():
    formulas = [f for n, f in inspect.getmembers(reference, inspect.isfunction) if f.__module__ == reference.__name__]
    with_equation = [f.__name__ for f in formulas if "$" in f.__doc__]
    assert len(with_equation) == 22
