import copy

import pytest
import torch
from torch.nn import functional as F

from equigrad.losses.single_label import BackgroundCrossEntropyLoss

LABELS = torch.tensor([0, 2, 3, 3, 1, 3])  # 3 is background


def random_logits():
    return torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()


def test_it_is_cross_entropy():
    logits = random_logits()
    loss, expected = BackgroundCrossEntropyLoss(3)(logits, LABELS), F.cross_entropy(logits, LABELS)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(*(torch.autograd.grad(value, logits)[0] for value in (loss, expected)))


def test_its_statistics_are_the_gradients_of_the_categories_without_background():
    logits, loss = random_logits(), BackgroundCrossEntropyLoss(3)
    (gradient,) = torch.autograd.grad(loss(logits, LABELS), logits)
    is_positive = F.one_hot(LABELS, 4).bool()
    positive = gradient.abs().where(is_positive, 0.0).sum(dim=0)[:3]
    negative = gradient.abs().where(~is_positive, 0.0).sum(dim=0)[:3]
    torch.testing.assert_close(loss.statistics.positive, positive)
    torch.testing.assert_close(loss.statistics.negative, negative)


def test_a_normalizer_divides_the_sum_in_loss_and_statistics():
    logits, loss = random_logits(), BackgroundCrossEntropyLoss(3)
    mean, halved = copy.deepcopy(loss), copy.deepcopy(loss)
    torch.testing.assert_close(halved(logits, LABELS, normalizer=12.0), mean(logits, LABELS) / 2)
    torch.testing.assert_close(halved.statistics.positive, mean.statistics.positive / 2)


def test_evaluation_leaves_no_trace():
    loss = BackgroundCrossEntropyLoss(3).eval()
    loss(random_logits(), LABELS)
    assert not loss.statistics.positive.any()


def test_background_has_no_statistics_of_its_own():
    loss = BackgroundCrossEntropyLoss(3)
    loss(random_logits(), torch.full((6,), 3))
    assert loss.statistics.positive.tolist() == [0, 0, 0]
    assert (loss.statistics.negative > 0).all()


@pytest.mark.parametrize("labels", [torch.full((6,), -100), torch.empty(0, dtype=torch.long)])
def test_nothing_that_counts_is_zero(labels):
    loss = BackgroundCrossEntropyLoss(3)
    logits = random_logits()[: len(labels)]
    assert loss(logits, labels).item() == 0
    assert not loss.statistics.negative.any()


def test_a_state_dict_brings_the_statistics_back():
    loss, other = BackgroundCrossEntropyLoss(3), BackgroundCrossEntropyLoss(3)
    loss(random_logits(), LABELS)
    other.load_state_dict(loss.state_dict())
    assert torch.equal(other.statistics.negative, loss.statistics.negative)
