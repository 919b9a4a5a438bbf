"""The varifocal loss and its equalized form. What all losses share: test_category_loss.py and test_soft_targets.py."""

import math

import pytest
import torch
from torch.testing import assert_close

from equigrad import BACKGROUND, IGNORE, EqualizedVarifocalLoss, VarifocalLoss
from equigrad.losses import reference
from losses.all_losses import CASES
from losses.gradients import gradient_sums

LN2 = math.log(2)
constant_or_not = pytest.mark.parametrize("constant_weight", [False, True])


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(("key", "constant_weight"), [("differentiated", False), ("constant", True)])
@pytest.mark.parametrize("is_equalized", [False, True])
def test_the_published_numbers_are_reproduced(golden, key, constant_weight, is_equalized):
    case = golden("varifocal")
    logits, labels, quality = tensor(case["logits"]).requires_grad_(), torch.tensor(case["labels"]), case["quality"]
    options = {"negative_balance": case["alpha"], "constant_weight": constant_weight, "reduction": "sum"}
    if is_equalized:  # and balanced before its first batch
        criterion = EqualizedVarifocalLoss(logits.shape[1], base_focus=case["gamma"], **options)
    else:
        criterion = VarifocalLoss(focus=case["gamma"], **options)
    loss = criterion(logits, labels, tensor(quality))
    loss.backward()
    assert_close(loss.item(), case[key]["loss_sum"], rtol=1e-9, atol=0)
    assert_close(logits.grad, tensor(case[key]["gradient"]), rtol=1e-9, atol=1e-12)


@constant_or_not
def test_one_sample_by_hand(constant_weight):
    loss = VarifocalLoss(constant_weight=constant_weight)
    logits = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    value = loss(logits, torch.tensor([0]), tensor([0.25]))
    value.backward()
    # p = 1/2: the positive costs 0.25 ln 2, the negative 0.75 / 4 ln 2.
    assert value.item() == pytest.approx(0.25 * LN2 + 0.75 / 4 * LN2)
    # The slope of p^2 is 2 p^2 (1 - p) = 1/4, times ln 2.
    negative = 0.75 * (1 / 4 * 1 / 2 + (0 if constant_weight else 1 / 4 * LN2))
    assert_close(logits.grad, tensor([[0.25 * (0.5 - 0.25), negative]]))


@constant_or_not
def test_the_equalized_loss_of_a_starved_category_by_hand(constant_weight):
    criterion = EqualizedVarifocalLoss(2, focus_scale=4.0, constant_weight=constant_weight)
    criterion.statistics.positive.copy_(tensor([1.0, 3.0]))
    criterion.statistics.negative.copy_(tensor([2.0, 2.0]))
    # G = 1/2 and 3/2, clipped to 1: gamma = 2 + 4 / 2 = 4 and 2, w = 2 and 1.
    assert_close(criterion.category_weights(), (tensor([4.0, 2.0]), tensor([2.0, 1.0])))
    logits = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    loss = criterion(logits, torch.tensor([1]), tensor([0.5]))
    assert loss.item() == pytest.approx(2 * 0.75 / 16 * LN2 + 0.5 * LN2)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert gradient[0, 1] == 0  # p has met the quality
    expected = 2 * 0.75 * (1 / 16 * 1 / 2 + (0 if constant_weight else 4 * 1 / 16 * 1 / 2 * LN2))
    assert gradient[0, 0].item() == pytest.approx(expected)
    assert_close(criterion.statistics.negative, tensor([2.0 + expected, 2.0]))
    assert_close(criterion.statistics.positive, tensor([1.0, 3.0]))


@constant_or_not
@pytest.mark.parametrize("shape", [(13,), (3, 2, 4)])
def test_value_gradient_and_statistics_are_those_of_the_plain_formula(shape, constant_weight):
    case = CASES["EVFL"]
    criterion, batch = case.build(constant_weight=constant_weight), case.batch(*shape)
    before = [criterion.statistics.positive.clone(), criterion.statistics.negative.clone()]
    values = reference.equalized_varifocal(*batch, *criterion.category_weights(), 0.75, constant_weight)
    expected = values.sum() / (batch.labels != IGNORE).sum()
    (gradient,) = torch.autograd.grad(expected, batch.logits)
    loss = criterion(*batch)
    assert_close(loss, expected)
    assert_close(torch.autograd.grad(loss, batch.logits)[0], gradient)
    recorded = (criterion.statistics.positive - before[0], criterion.statistics.negative - before[1])
    assert_close(recorded, gradient_sums(gradient, batch.labels))


def test_the_formula_is_that_of_the_paper():
    logits, labels, quality = CASES["VFL"].batch(seed=3)
    p, q = logits.sigmoid(), quality.unsqueeze(1)
    positive = -q * (q * p.log() + (1 - q) * (1 - p).log())
    is_positive = labels.unsqueeze(1) == torch.arange(4)
    expected = torch.where(is_positive, positive, -0.75 * p**2 * (1 - p).log()).sum(1)
    assert_close(reference.varifocal(logits, labels, quality), torch.where(labels == IGNORE, 0.0, expected))


@constant_or_not
def test_without_extra_focus_it_is_the_varifocal_loss_and_keeps_statistics(constant_weight):
    options = {"constant_weight": constant_weight, "negative_balance": 0.5}
    criterion, plain = EqualizedVarifocalLoss(4, focus_scale=0, **options), VarifocalLoss(**options)
    for seed in range(2):
        batch = CASES["EVFL"].batch(seed=seed)
        assert_close(criterion(*batch), plain(*batch))
    assert criterion.statistics.positive.sum() > 0


def test_background_alone_is_the_focal_loss_times_the_balance():
    logits, labels, quality = torch.randn(5, 4, dtype=torch.float64), torch.full((5,), BACKGROUND), torch.rand(5)
    expected = 0.3 * reference.focal(logits, labels, 3.0, None)
    assert_close(reference.varifocal(logits, labels, quality, 3.0, 0.3), expected)
    assert_close(VarifocalLoss(focus=3.0, negative_balance=0.3)(logits, labels, quality), expected.mean())


def test_the_losses_of_deim_and_rf_detr_are_varifocal_losses_with_plain_positives():
    logits, labels, iou = CASES["VFL"].batch(seed=3)
    p, is_positive = logits.sigmoid(), labels.unsqueeze(1) == torch.arange(4)
    is_counted = labels != IGNORE

    def published(target, negative_weight):
        target = torch.where(is_positive, target.unsqueeze(1) if target.dim() == 1 else target, 0.0)
        costs = -target * p.log() - (1 - target) * (1 - p).log()
        return (torch.where(is_positive, 1.0, negative_weight) * costs)[is_counted].sum() / is_counted.sum()

    options = {"negative_balance": 1.0, "quality_weight": False}
    mal = VarifocalLoss(focus=1.5, constant_weight=True, **options)(logits, labels, iou**1.5)
    expected = published(iou**1.5, p.detach() ** 1.5)
    assert_close(mal, expected)
    assert_close(torch.autograd.grad(mal, logits), torch.autograd.grad(expected, logits, retain_graph=True))
    own_prob = p.detach().gather(1, labels.clamp(min=0).unsqueeze(1)).squeeze(1)
    target = (own_prob**0.25 * iou**0.75).clamp(min=0.01)
    ia_bce = VarifocalLoss(**options)(logits, labels, target)
    expected = published(target, p**2)
    assert_close(ia_bce, expected)
    assert_close(torch.autograd.grad(ia_bce, logits), torch.autograd.grad(expected, logits))


def test_a_positive_of_quality_0_weighs_nothing():
    logits = torch.randn(1, 2, dtype=torch.float64, requires_grad=True)
    VarifocalLoss()(logits, torch.tensor([0]), tensor([0.0])).backward()
    assert logits.grad[0, 0] == 0
    assert logits.grad[0, 1] != 0


@constant_or_not
def test_extreme_logits_and_ignored_batches_stay_finite(constant_weight):
    criterion = CASES["EVFL"].build(constant_weight=constant_weight)
    for size in (100.0, 1e4, -1e4):
        logits = torch.full((4, 4), size, requires_grad=True)
        loss = criterion(logits, torch.tensor([0, 1, BACKGROUND, 3]), torch.rand(4))
        loss.backward()
        assert loss.isfinite()
        assert logits.grad.isfinite().all()
    ignored = torch.randn(4, 4, requires_grad=True)
    loss = criterion(ignored, torch.full((4,), IGNORE), torch.rand(4))
    loss.backward()
    assert loss == ignored.grad.abs().sum() == 0
    assert criterion.statistics.skipped == 0


def test_the_statistics_are_saved_and_evaluation_leaves_them():
    criterion = EqualizedVarifocalLoss(4)
    batch = CASES["EVFL"].batch()
    criterion(*batch)
    again = EqualizedVarifocalLoss(4)
    again.load_state_dict(criterion.state_dict())
    assert_close(again.eval()(*batch), criterion.eval()(*batch))
    assert_close(again.state_dict(), criterion.state_dict(), rtol=0, atol=0)
    assert list(again.state_dict()) == ["statistics.positive", "statistics.negative", "statistics.skipped"]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: VarifocalLoss(focus=-1.0), "focus must be finite and >= 0"),
        (lambda: VarifocalLoss(negative_balance=float("nan")), "negative_balance must be finite and >= 0"),
        (lambda: EqualizedVarifocalLoss(3, base_focus=0.0), "base_focus must be finite and > 0"),
        (lambda: EqualizedVarifocalLoss(3, focus_scale=-1.0), "focus_scale must be finite and >= 0"),
        (lambda: EqualizedVarifocalLoss(3, negative_balance=-0.1), "negative_balance must be finite and >= 0"),
        (lambda: EqualizedVarifocalLoss(0), "num_classes must be at least 1"),
    ],
)
def test_bad_hyper_parameters_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()
