import inspect
from dataclasses import MISSING, fields
from typing import get_args

import numpy as np
import pytest
import torch

import equigrad
from equigrad.losses.single_label import BackgroundCrossEntropyLoss
from equigrad.tasks import losses
from equigrad.tasks.losses import CategoryCounts, ClassifierLoss, DenseLoss, RoILoss

COUNTS = CategoryCounts(np.array([40, 12, 3]), np.array([90, 30, 4]))

LOSSES = {
    losses.SoftmaxEql: equigrad.SoftmaxEqualizationLoss,
    losses.SigmoidEql: equigrad.SigmoidEqualizationLoss,
    losses.Efl: equigrad.EqualizedFocalLoss,
    losses.Eqfl: equigrad.EqualizedQualityFocalLoss,
    losses.Evfl: equigrad.EqualizedVarifocalLoss,
    losses.QualityFocal: equigrad.QualityFocalLoss,
    losses.FocalEql: equigrad.FocalEqualizationLoss,
    losses.GradientBlocking: equigrad.GradientBlockingLoss,
    losses.BalancedSoftmax: equigrad.BalancedSoftmaxLoss,
    losses.LogitAdjustment: equigrad.LogitAdjustmentLoss,
    losses.Lade: equigrad.LADELoss,
    losses.Seesaw: equigrad.SeesawLoss,
    losses.GroupedSoftmax: equigrad.GroupedSoftmaxLoss,
    losses.Distillation: equigrad.DistillationLoss,
    losses.WithObjectness: equigrad.WithObjectness,
    losses.CrossEntropy: equigrad.CrossEntropyLoss,
    losses.BackgroundCrossEntropy: BackgroundCrossEntropyLoss,
    losses.AlignedCrossEntropy: equigrad.CrossEntropyLoss,
}
NEEDED = {losses.GradientBlocking: {"threshold": 10.0}, losses.WithObjectness: {"loss": losses.SigmoidEql()}}
ONLY_HERE = {"two_way", "count_by"}  # choices among classes or counts, which the loss itself is not told
NOT_SETTINGS = {
    "self",
    "reduction",
    "num_classes",
    "category_counts",
    "category_frequency",
    "base",
    "loss",
    "ignore_index",
}


def test_every_loss_that_a_method_may_have_is_compared_here():
    offered = {*get_args(ClassifierLoss), *get_args(DenseLoss), *get_args(RoILoss)}
    assert offered == set(LOSSES)


@pytest.mark.parametrize("settings", LOSSES)
def test_settings_build_their_loss_for_the_categories(settings):
    loss = settings(**NEEDED.get(settings, {})).build(COUNTS)
    assert type(loss) is LOSSES[settings]


@pytest.mark.parametrize("settings", LOSSES)
def test_defaults_are_those_of_the_loss(settings):
    parameters = inspect.signature(LOSSES[settings]).parameters
    for field in fields(settings):
        if field.name in ONLY_HERE | NOT_SETTINGS or settings is losses.AlignedCrossEntropy:
            continue
        default = parameters[field.name].default
        assert field.default == (MISSING if default is inspect.Parameter.empty else default), field.name


@pytest.mark.parametrize(
    "settings",
    [losses.SoftmaxEql, losses.SigmoidEql, losses.Efl, losses.Eqfl, losses.Evfl, losses.FocalEql],
)
def test_every_hyper_parameter_of_an_equalization_loss_can_be_set(settings):
    parameters = inspect.signature(LOSSES[settings]).parameters.keys() - NOT_SETTINGS
    assert {field.name for field in fields(settings)} == parameters


def test_values_reach_the_loss():
    sigmoid = losses.SigmoidEql(midpoint=0.5, steepness=3.0).build(COUNTS)
    sigmoid.statistics.positive.fill_(1.0)
    sigmoid.statistics.negative.fill_(2.0)  # a ratio at the midpoint
    _, negative_weights = sigmoid.category_weights()
    assert negative_weights.tolist() == pytest.approx([0.5] * 3)
    assert losses.Efl(focus_scale=3.0).build(COUNTS).focus_scale == 3.0
    assert losses.SoftmaxEql(prior_power=0.5).build(COUNTS).prior_power == 0.5
    assert losses.Seesaw(mitigation=0.3).build(COUNTS).mitigation == 0.3
    base = losses.Distillation(losses.SoftmaxEql(), temperature=2.0).build(COUNTS)
    assert (base.temperature, type(base.base)) == (2.0, equigrad.SoftmaxEqualizationLoss)


def test_counts_of_images_or_of_objects_reach_the_loss():
    blocked = [losses.GradientBlocking(20.0, count_by=kind).build(COUNTS).kept for kind in ("images", "instances")]
    assert [kept.tolist() for kept in blocked] == [[1, 0, 0], [1, 1, 0]]
    weights = losses.AlignedCrossEntropy(power=2.0).build(COUNTS).weight
    assert torch.equal(weights.argsort(), torch.tensor([0, 1, 2]))


def test_objectness_may_be_a_softmax_of_two_columns():
    sigmoid, two_way = (losses.WithObjectness(losses.Seesaw(), two_way=each).build(COUNTS) for each in (False, True))
    labels = torch.tensor([0, 1, equigrad.BACKGROUND])
    one_column, two_columns = torch.randn(3, 4), torch.randn(3, 5)
    assert sigmoid(one_column, labels).isfinite()
    assert two_way(two_columns, labels).isfinite()
    with pytest.raises(ValueError, match=r"must be \(N, 3\)"):
        sigmoid(two_columns, labels)
