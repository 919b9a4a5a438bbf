"""Reference numbers of the published implementations, reproduced by the four losses."""

import pytest
import torch
from torch.testing import assert_close

from equigrad import (
    BACKGROUND,
    IGNORE,
    EqualizedFocalLoss,
    EqualizedQualityFocalLoss,
    GradientStatistics,
    SigmoidEqualizationLoss,
    SigmoidObjectnessScores,
    SoftmaxEqualizationLoss,
    WithObjectness,
)
from equigrad.losses import functional

SIGMOID = ["default", "float32", "hyper", "mapping_linear", "varying_rows"]
SOFTMAX = ["default", "pi1p5", "varying_rows"]


def tensor(values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype)


def flip_last_column(values):
    """Their extra column is background; the objectness column is its negative."""
    return torch.cat([values[:, :-1], -values[:, -1:]], dim=1)


def sigmoid_labels(labels, num_classes):
    labels = torch.tensor(labels)
    return torch.where(labels == num_classes, BACKGROUND, labels)


def focal_labels(labels):
    """Theirs: -1 ignored, 0 background, 1 ... C."""
    labels = torch.tensor(labels)
    return torch.where(labels == -1, IGNORE, labels - 1)


def sigmoid_criterion(case):
    hyper = case["hyper"]
    criterion = SigmoidEqualizationLoss(
        case["num_classes"],
        positive_boost=hyper["alpha"],
        mapping=hyper["mapping"],
        steepness=hyper["gamma"],
        midpoint=hyper["mu"],
        reduction="sum",
    )
    return WithObjectness(criterion)


@pytest.mark.parametrize("name", SIGMOID)
def test_sigmoid_eql_with_objectness(golden, name):
    case = golden(f"sigmoid_eql_{name}")
    dtype, tolerance = (torch.float32, 1e-5) if case["dtype"] == "float32" else (torch.float64, 1e-9)
    close = {"rtol": tolerance, "atol": tolerance * 1e-2}
    criterion = sigmoid_criterion(case)
    for step in case["steps"]:
        positive, negative = criterion.loss.category_weights()
        assert_close(positive, tensor(step["pos_weight_used"])[:-1], **close)
        assert_close(negative, tensor(step["neg_weight_used"])[:-1], **close)
        logits = flip_last_column(tensor(step["logits"], dtype)).requires_grad_()
        labels = sigmoid_labels(step["labels"], case["num_classes"])
        # Their statistics are those of the summed loss, so the division by rows stays outside.
        loss = criterion(logits, labels) * case["hyper"]["loss_weight"] / len(labels)
        loss.backward()
        assert_close(loss, tensor(step["loss"], dtype), **close)
        assert_close(logits.grad, flip_last_column(tensor(step["grad_logits"], dtype)), **close)
        # The last of their columns is never accumulated.
        assert_close(criterion.loss.statistics.positive, tensor(step["pos_grad_after"])[: case["num_classes"]], **close)
        assert_close(criterion.loss.statistics.negative, tensor(step["neg_grad_after"])[: case["num_classes"]], **close)


def test_sigmoid_eql_scores(golden):
    case = golden("sigmoid_eql_default")["inference"]
    scores = SigmoidObjectnessScores()(flip_last_column(tensor(case["logits"])))
    assert_close(scores, tensor(case["scores"])[:, : scores.shape[1]], rtol=1e-9, atol=1e-12)


def test_sigmoid_eql_trajectory(golden):
    case = golden("sigmoid_eql_trajectory")
    criterion = WithObjectness(SigmoidEqualizationLoss(case["num_classes"], reduction="sum"))
    weight, bias = tensor(case["W0"]), tensor(case["b0"])
    weight[-1], bias[-1] = -weight[-1], -bias[-1]
    weight.requires_grad_(), bias.requires_grad_()
    for batch, expected in zip(case["batches"], case["losses"], strict=True):
        labels = sigmoid_labels(batch["labels"], case["num_classes"])
        loss = criterion(tensor(batch["X"]) @ weight.T + bias, labels) / len(labels)
        assert_close(loss.item(), expected, rtol=1e-9, atol=1e-12)
        descend(loss, (weight, bias), case["hyper"]["lr"])
    final = torch.cat([weight.detach()[:-1], -weight.detach()[-1:]])
    assert_close(final, tensor(case["W_final"]), rtol=1e-9, atol=1e-12)
    assert_close(criterion.loss.statistics.positive, tensor(case["pos_grad_final"]), rtol=1e-9, atol=1e-12)


def test_softmax_eql_trajectory(golden):
    case = golden("softmax_eql_trajectory")
    criterion = SoftmaxEqualizationLoss(case["num_classes"])
    weight, bias = tensor(case["W0"]).requires_grad_(), tensor(case["b0"]).requires_grad_()
    for batch, expected in zip(case["batches"], case["losses"], strict=True):
        loss = criterion(tensor(batch["X"]) @ weight.T + bias, torch.tensor(batch["labels"]))
        assert_close(loss.item(), expected, rtol=1e-9, atol=1e-12)
        descend(loss, (weight, bias), case["hyper"]["lr"])
    assert_close(weight.detach(), tensor(case["W_final"]), rtol=1e-9, atol=1e-12)
    assert_close(criterion.statistics.positive, tensor(case["pos_grad_final"]), rtol=1e-9, atol=1e-12)
    assert_close(criterion.statistics.negative, tensor(case["neg_grad_final"]), rtol=1e-9, atol=1e-12)


def descend(loss, parameters, learning_rate):
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.data -= learning_rate * gradient


@pytest.mark.parametrize("name", SOFTMAX)
def test_softmax_eql(golden, name):
    case = golden(f"softmax_eql_{name}")
    criterion = SoftmaxEqualizationLoss(case["num_classes"], prior_power=case["hyper"]["pi"])
    for step in case["steps"]:
        margin, expected_margin = criterion.category_weights(), tensor(step["log_margin_used"])
        assert_close(margin - margin[0], expected_margin - expected_margin[0], rtol=1e-9, atol=1e-9)
        logits = tensor(step["logits"]).requires_grad_()
        loss = criterion(logits, torch.tensor(step["labels"]))
        loss.backward()
        assert_step(loss, logits.grad, criterion.statistics, step)


def test_the_later_published_softmax_eql_is_another_margin(golden):
    case = golden("softmax_eql_v2_default")
    statistics = GradientStatistics(case["num_classes"])
    for step in case["steps"]:
        prior = statistics.positive / (statistics.positive.sum() + case["hyper"]["eps"])
        margin = (prior ** case["hyper"]["pi"] + 1e-9).log()
        logits = tensor(step["logits"]).requires_grad_()
        loss, sums = functional.cross_entropy(logits, torch.tensor(step["labels"]), margin)
        loss.backward()
        statistics.update(*sums)
        assert_step(loss, logits.grad, statistics, step)


@pytest.mark.parametrize("name", ["default", "levels", "no_alpha"])
def test_efl(golden, name):
    case = golden(f"efl_{name}")
    hyper = case["hyper"]
    criterion = EqualizedFocalLoss(
        case["num_classes"],
        base_focus=hyper["gamma_b"],
        focus_scale=hyper["s"],
        positive_balance=None if hyper["alpha"] < 0 else hyper["alpha"],
    )
    for step in case["steps"]:
        run_focal_step(criterion, step, hyper["loss_weight"])


@pytest.mark.parametrize("name", ["default", "levels"])
def test_eqfl(golden, name):
    case = golden(f"eqfl_{name}")
    hyper = case["hyper"]
    criterion = EqualizedQualityFocalLoss(case["num_classes"], base_focus=hyper["gamma_b"], focus_scale=hyper["s"])
    for step in case["steps"]:
        run_focal_step(criterion, step, hyper["loss_weight"], tensor(step["quality"]))


def run_focal_step(criterion, step, loss_weight, *quality):
    focus, weight = criterion.category_weights()
    assert_close(focus, tensor(step["gamma_used"]), rtol=1e-9, atol=1e-9)
    assert_close(weight, tensor(step["weight_used"]), rtol=1e-9, atol=1e-9)
    logits = tensor(step["logits"]).requires_grad_()
    # Their loss weight is inside the statistics: it is part of the normalizer here.
    normalizer = (step["normalizer"] or 1.0) / loss_weight
    loss = criterion(logits, focal_labels(step["labels"]), *quality, normalizer=normalizer)
    loss.backward()
    assert_step(loss, logits.grad, criterion.statistics, step)


def assert_step(loss, gradient, statistics, step):
    close = {"rtol": 1e-9, "atol": 1e-12}
    assert_close(loss.item(), step["loss"], **close)
    assert_close(gradient, tensor(step["grad_logits"]), **close)
    assert_close(statistics.positive, tensor(step["pos_grad_after"]), **close)
    assert_close(statistics.negative, tensor(step["neg_grad_after"]), **close)
