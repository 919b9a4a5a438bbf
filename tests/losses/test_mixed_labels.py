"""Mixup and cutmix: labels, loss and statistics of samples that were mixed from two."""

import pytest
import torch
from torch.testing import assert_close

import equigrad
from equigrad import BACKGROUND, IGNORE, mixed_labels
from losses.all_losses import CASES
from losses.gradients import gradient_sums

FIRST, SECOND = torch.tensor([0, 0, 1, 2, 3, 1]), torch.tensor([1, 0, 3, 3, 0, 2])
SHARES = {"one number": 0.75, "one for each sample": torch.tensor([0.75, 0.5, 0.25, 1.0, 0.0, 0.125])}
all_shares = pytest.mark.parametrize("share", SHARES.values(), ids=SHARES)


def logits():
    return torch.randn(6, 4, dtype=torch.float64, requires_grad=True)


def test_a_mixed_label_has_the_shares_of_its_two_labels():
    mixed = mixed_labels(torch.tensor([0, 2]), torch.tensor([1, 2]), 0.75, num_classes=3)
    assert mixed.tolist() == [[0.75, 0.25, 0.0], [0.0, 0.0, 1.0]]


def test_label_maps_may_be_mixed_by_sample_or_by_pixel():
    first, second = torch.tensor([[0, 1], [2, 0]]), torch.tensor([[1, 1], [0, BACKGROUND]])
    by_sample = mixed_labels(first, second, torch.tensor([1.0, 0.25]), 3)
    assert by_sample.movedim(1, -1).tolist() == [[[1, 0, 0], [0, 1, 0]], [[0.75, 0, 0.25], [0.25, 0, 0]]]
    by_pixel = mixed_labels(first, second, torch.tensor([[1.0, 0.0], [0.0, 1.0]]), 3)
    assert by_pixel.argmax(1).tolist() == [[0, 1], [0, 0]]


@all_shares
@pytest.mark.parametrize("name", ["CE", "Softmax-EQL", "Balanced Softmax", "Logit Adjustment", "BCE"])
def test_the_loss_of_mixed_labels_is_the_weighted_mean_of_both(name, share):
    z, loss = logits(), CASES[name].build(reduction="none").eval()
    expected = share * loss(z, FIRST) + (1 - share) * loss(z, SECOND)
    mixed = mixed_labels(FIRST, SECOND, share, 4)
    assert_close(loss(z, mixed), expected)
    assert_close(CASES[name].build().eval()(z, mixed), expected.mean())


@all_shares
def test_softmax_eql_records_the_gradient_of_each_label_times_its_share(share):
    z, criterion = logits(), CASES["Softmax-EQL"].build(reduction="sum")
    expected = [criterion.statistics.positive.clone(), criterion.statistics.negative.clone()]
    values = CASES["Softmax-EQL"].build(reduction="none").eval()
    for labels, part in ((FIRST, share), (SECOND, 1 - share)):
        (gradient,) = torch.autograd.grad((part * values(z, labels)).sum(), z)
        expected = [total + own for total, own in zip(expected, gradient_sums(gradient, labels), strict=True)]
    criterion(z, mixed_labels(FIRST, SECOND, share, 4))
    assert_close([criterion.statistics.positive, criterion.statistics.negative], expected)


@all_shares
@pytest.mark.parametrize("name", ["Sigmoid-EQL", "EQFL", "EVFL"])
def test_a_sigmoid_loss_records_the_gradient_of_the_mixture(name, share):
    z, criterion, mixed = logits(), CASES[name].build(), mixed_labels(FIRST, SECOND, share, 4)
    before = [criterion.statistics.positive.clone(), criterion.statistics.negative.clone()]
    size = torch.autograd.grad(criterion(z, mixed), z)[0].abs()
    assert_close(criterion.statistics.positive - before[0], (size * (mixed > 0)).sum(0))
    assert_close(criterion.statistics.negative - before[1], (size * (mixed == 0)).sum(0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((FIRST, SECOND, 1.5, 4), r"share must be within \[0, 1\]; got 1\.5"),
        ((FIRST, SECOND, float("nan"), 4), "share must be within"),
        ((FIRST, SECOND, torch.ones(5), 4), r"share must be one number, \(6,\) or of the labels' shape, got \(5,\)"),
        ((FIRST, SECOND, 0.5, 3), r"labels must be 0 ... 2, or BACKGROUND \(-1\), to be mixed; got 3"),
        ((FIRST, SECOND.masked_fill(SECOND == 1, IGNORE), 0.5, 4), "to be mixed; got -100"),
        ((FIRST, SECOND[:5], 0.5, 4), "both labels must be int64 of the same shape"),
        ((FIRST, SECOND.float(), 0.5, 4), "both labels must be int64"),
    ],
)
def test_what_cannot_be_mixed_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        mixed_labels(*arguments)


def test_a_softmax_loss_refuses_a_mixture_with_background():
    mixed = mixed_labels(FIRST, SECOND.masked_fill(SECOND == 1, BACKGROUND), 0.5, 4)
    with pytest.raises(ValueError, match="must add up to 1"):
        equigrad.CrossEntropyLoss()(logits(), mixed)
