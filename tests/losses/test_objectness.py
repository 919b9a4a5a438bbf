import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from equigrad import (
    BACKGROUND,
    IGNORE,
    EqualizedFocalLoss,
    EqualizedQualityFocalLoss,
    SigmoidEqualizationLoss,
    SoftmaxEqualizationLoss,
    WithObjectness,
)

LABELS = torch.tensor([0, 2, BACKGROUND, IGNORE, BACKGROUND, 1])


def logits(num_columns=4):
    return torch.randn(len(LABELS), num_columns, dtype=torch.float64, requires_grad=True)


def objectness_loss(z):
    counted = LABELS != IGNORE
    return F.binary_cross_entropy_with_logits(z[counted, -1], (LABELS[counted] >= 0).double())


@pytest.mark.parametrize("loss_class", [SigmoidEqualizationLoss, EqualizedFocalLoss])
def test_adds_plain_bce_of_object_against_background(loss_class):
    z = logits()
    expected = loss_class(3)(z[:, :-1], LABELS) + objectness_loss(z)
    loss = WithObjectness(loss_class(3))(z, LABELS)
    assert_close(loss, expected)
    assert_close(torch.autograd.grad(loss, z)[0], torch.autograd.grad(expected, z)[0])


def test_a_softmax_loss_inside_sees_background_as_ignored():
    z = logits()
    criterion = WithObjectness(SoftmaxEqualizationLoss(3))
    is_object = LABELS >= 0
    expected = F.cross_entropy(z[is_object, :-1], LABELS[is_object]) + objectness_loss(z)
    assert_close(criterion(z, LABELS), expected)


def test_objectness_never_enters_the_statistics():
    with_column, without = WithObjectness(SigmoidEqualizationLoss(3)), SigmoidEqualizationLoss(3)
    z = logits()
    with_column(z, LABELS)
    without(z[:, :-1], LABELS)
    assert_close(with_column.loss.state_dict(), without.state_dict())
    assert list(with_column.state_dict()) == [f"loss.{name}" for name in without.state_dict()]


@pytest.mark.parametrize("options", [{"reduction": "sum"}, {"reduction": "mean", "normalizer": 7.0}])
def test_objectness_is_reduced_like_the_loss_inside(options):
    reduction, normalizer = options["reduction"], options.get("normalizer")
    z = logits()
    counted = (LABELS != IGNORE).sum()
    expected = SigmoidEqualizationLoss(3, reduction=reduction)(z[:, :-1], LABELS, normalizer=normalizer)
    expected = expected + objectness_loss(z) * counted / (normalizer or 1)
    criterion = WithObjectness(SigmoidEqualizationLoss(3, reduction=reduction))
    assert_close(criterion(z, LABELS, normalizer=normalizer), expected)


def test_multi_label_targets_are_objects_where_any_category_is():
    z = logits()[:3]
    targets = torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    expected = SigmoidEqualizationLoss(3)(z[:, :-1], targets)
    expected = expected + F.binary_cross_entropy_with_logits(z[:, -1], torch.tensor([1.0, 0.0, 1.0]).double())
    assert_close(WithObjectness(SigmoidEqualizationLoss(3))(z, targets), expected)


def test_works_on_maps_of_logits():
    z = torch.randn(2, 4, 3, 5, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(-1, 3, (2, 3, 5))
    rows, flat = z.movedim(1, -1).reshape(-1, 4), labels.flatten()
    criterion = WithObjectness(SigmoidEqualizationLoss(3))
    assert_close(criterion(z, labels), WithObjectness(SigmoidEqualizationLoss(3))(rows, flat))


def test_hands_the_quality_on_to_a_quality_loss():
    z, quality = logits(), torch.rand(len(LABELS))
    expected = EqualizedQualityFocalLoss(3)(z[:, :-1], LABELS, quality) + objectness_loss(z)
    assert_close(WithObjectness(EqualizedQualityFocalLoss(3))(z, LABELS, quality), expected)


def test_a_missing_objectness_column_is_named():
    with pytest.raises(ValueError, match=r"logits must be \(N, 3\) .* got \(6, 2\)"):
        WithObjectness(SigmoidEqualizationLoss(3))(logits(3), torch.zeros(6, dtype=torch.int64))


def test_refuses_what_is_no_category_loss():
    with pytest.raises(TypeError, match="loss must be a category loss of equigrad, got BCELoss"):
        WithObjectness(nn.BCELoss())
