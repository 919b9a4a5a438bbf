"""Reference numbers of the published implementations, reproduced by kernels alone.

Weights, pass, update of the statistics and backward are the kernels' own. The process that interprets them replays a
whole file and returns what it computed; see `tests/losses/test_golden.py` for the conventions of the files.
"""

import os
from functools import partial
from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from equigrad import BACKGROUND, BalancedSoftmaxLoss, GradientBlockingLoss
from equigrad.losses.kernels.backward import scale_gradient
from equigrad.losses.kernels.launch import run
from equigrad.losses.kernels.sigmoid import binary_cross_entropy
from equigrad.losses.kernels.softmax import cross_entropy
from equigrad.losses.kernels.statistics import update_statistics
from equigrad.losses.kernels.weights import focal_weights, margin, sigmoid_weights
from losses.test_golden import SIGMOID, SOFTMAX, flip_last_column, focal_labels, sigmoid_labels, tensor


class Step(NamedTuple):
    loss: Tensor
    gradient: Tensor
    positive: Tensor
    negative: Tensor
    weights: tuple[Tensor, ...]


class Statistics:
    """G_j^pos and G_j^neg, moved by a kernel."""

    def __init__(self, num_classes):
        self.positive, self.negative = (torch.zeros(num_classes, dtype=torch.float64) for _ in range(2))
        self.skipped = torch.zeros((), dtype=torch.int64)

    def add(self, record, *, is_divided):
        run(update_statistics(self.positive, self.negative, self.skipped, record, is_divided=is_divided))
        assert self.skipped == 0

    def step(self, loss, gradient, weights):
        return Step(loss, gradient, self.positive.clone(), self.negative.clone(), tuple(weights))


def backward(result, upstream=1.0):
    """The gradient that a user sees."""
    upstream = torch.tensor(upstream, dtype=result.loss.dtype)
    run(scale_gradient(result.gradient, upstream, result.divisor, out=result.gradient))
    return result.gradient


def sigmoid_step(statistics, weights, logits, labels, upstream):
    """A loss with the objectness branch beside it, summed; `upstream` is what the caller multiplies it by."""
    result = binary_cross_entropy(logits[:, :-1], labels, *weights, reduction="sum").run()
    objectness = binary_cross_entropy(logits[:, -1:], labels.clamp(max=0), reduction="sum").run()
    gradient = torch.cat([backward(result, upstream), backward(objectness, upstream)], 1)
    return (result.loss + objectness.loss) * upstream, gradient, result.record


def replay_sigmoid(case, hyper):
    dtype = getattr(torch, case["dtype"])
    statistics, steps = Statistics(case["num_classes"]), []
    for step in case["steps"]:
        weights = sigmoid_weights(
            statistics.positive,
            statistics.negative,
            positive_boost=hyper["alpha"],
            mapping=hyper["mapping"],
            steepness=hyper["gamma"],
            midpoint=hyper["mu"],
        ).run()
        logits = flip_last_column(tensor(step["logits"], dtype))
        labels = sigmoid_labels(step["labels"], case["num_classes"])
        upstream = hyper["loss_weight"] / len(labels)
        loss, gradient, record = sigmoid_step(statistics, weights, logits, labels, upstream)
        statistics.add(record, is_divided=False)
        steps.append(statistics.step(loss, gradient, weights))
    return steps


DEFAULTS = {"positive_boost": 4.0, "mapping": "sigmoid", "steepness": 12.0, "midpoint": 0.8}


@pytest.mark.parametrize("name", SIGMOID)
def test_sigmoid_eql_with_objectness(golden, interpreted, name):
    case = golden(f"sigmoid_eql_{name}")
    num_classes = case["num_classes"]
    dtype, tolerance = (torch.float32, 1e-5) if case["dtype"] == "float32" else (torch.float64, 1e-9)
    close = {"rtol": tolerance, "atol": tolerance * 1e-2}
    for step, expected in zip(interpreted(replay_sigmoid, case, case["hyper"]), case["steps"], strict=True):
        assert_close(step.weights[0], tensor(expected["pos_weight_used"])[:-1], **close)
        assert_close(step.weights[1], tensor(expected["neg_weight_used"])[:-1], **close)
        assert_close(step.loss, tensor(expected["loss"], dtype), **close)
        assert_close(step.gradient, flip_last_column(tensor(expected["grad_logits"], dtype)), **close)
        assert_close(step.positive, tensor(expected["pos_grad_after"])[:num_classes], **close)
        assert_close(step.negative, tensor(expected["neg_grad_after"])[:num_classes], **close)


def replay_sigmoid_ranks(case):
    """All ranks of a step in turn: their records are added up as the collective would, and added once."""
    statistics, steps = Statistics(case["num_classes"]), []
    for ranks in zip(*case["ranks"], strict=True):
        weights = sigmoid_weights(statistics.positive, statistics.negative, **DEFAULTS).run()
        losses, records = [], []
        for step in ranks:
            logits = flip_last_column(tensor(step["logits"]))
            labels = sigmoid_labels(step["labels"], case["num_classes"])
            loss, gradient, record = sigmoid_step(statistics, weights, logits, labels, 1 / len(labels))
            losses.append((loss, gradient))
            records.append(record)
        statistics.add(torch.stack(records).sum(0), is_divided=False)
        steps.append([statistics.step(*each, weights) for each in losses])
    return steps


def test_sigmoid_eql_on_two_ranks(golden, interpreted):
    case = golden("sigmoid_eql_two_ranks")
    steps = interpreted(replay_sigmoid_ranks, case)
    for rank, expected_steps in enumerate(case["ranks"]):
        for step, expected in zip(steps, expected_steps, strict=True):
            assert_close(step[rank].loss.item(), expected["loss"], rtol=1e-9, atol=1e-12)
            for name in ("positive", "negative"):
                expected_sums = tensor(expected[f"{name[:3]}_grad_after"])[: case["num_classes"]]
                assert_close(getattr(step[rank], name), expected_sums, rtol=1e-9, atol=1e-12)


def replay_softmax(case, prior_power, is_later_variant=False):
    statistics, steps = Statistics(case["num_classes"]), []
    for step in case["steps"]:
        if is_later_variant:
            prior = statistics.positive / (statistics.positive.sum() + case["hyper"]["eps"])
            weights = ((prior**prior_power + 1e-9).log(),)
        else:
            weights = margin(statistics.positive, prior_power=prior_power, prior_floor=1e-4).run()
        result = cross_entropy(tensor(step["logits"]), torch.tensor(step["labels"]), *weights).run()
        statistics.add(result.record, is_divided=True)
        steps.append(statistics.step(result.loss, backward(result), weights))
    return steps


@pytest.mark.parametrize("name", SOFTMAX)
def test_softmax_eql(golden, interpreted, name):
    case = golden(f"softmax_eql_{name}")
    steps = interpreted(replay_softmax, case, case["hyper"]["pi"])
    for step, expected in zip(steps, case["steps"], strict=True):
        expected_margin = tensor(expected["log_margin_used"])
        (used,) = step.weights
        assert_close(used - used[0], expected_margin - expected_margin[0], rtol=1e-9, atol=1e-9)
    assert_steps(steps, case["steps"])


def test_the_later_published_softmax_eql_is_another_margin(golden, interpreted):
    case = golden("softmax_eql_v2_default")
    assert_steps(interpreted(replay_softmax, case, case["hyper"]["pi"], True), case["steps"])


def replay_softmax_ranks(case):
    """By the published rule: each rank divides its own gradient, then all are summed."""
    statistics, steps = Statistics(case["num_classes"]), []
    for ranks in zip(*case["ranks"], strict=True):
        weights = margin(statistics.positive, prior_power=1.0, prior_floor=1e-4).run()
        results = [
            cross_entropy(tensor(step["logits"]), torch.tensor(step["labels"]), *weights).run() for step in ranks
        ]
        for result in results:
            statistics.add(result.record, is_divided=True)
        steps.append([statistics.step(result.loss, backward(result), weights) for result in results])
    return steps


def test_softmax_eql_on_two_ranks(golden, interpreted):
    case = golden("softmax_eql_two_ranks")
    steps = interpreted(replay_softmax_ranks, case)
    for rank, expected_steps in enumerate(case["ranks"]):
        assert_steps([step[rank] for step in steps], expected_steps)


def replay_trajectory(case, is_sigmoid):
    """Gradient descent of a linear layer: losses, the final weights and statistics."""
    statistics, losses = Statistics(case["num_classes"]), []
    weight, bias = tensor(case["W0"]), tensor(case["b0"])
    if is_sigmoid:
        weight[-1], bias[-1] = -weight[-1], -bias[-1]
    for batch in case["batches"]:
        features = tensor(batch["X"])
        logits = features @ weight.T + bias
        if is_sigmoid:
            weights = sigmoid_weights(statistics.positive, statistics.negative, **DEFAULTS).run()
            labels = sigmoid_labels(batch["labels"], case["num_classes"])
            loss, gradient, record = sigmoid_step(statistics, weights, logits, labels, 1 / len(labels))
        else:
            (used,) = margin(statistics.positive, prior_power=1.0, prior_floor=1e-4).run()
            result = cross_entropy(logits, torch.tensor(batch["labels"]), used).run()
            loss, gradient, record = result.loss, backward(result), result.record
        statistics.add(record, is_divided=not is_sigmoid)
        losses.append(loss.item())
        weight -= case["hyper"]["lr"] * gradient.T @ features
        bias -= case["hyper"]["lr"] * gradient.sum(0)
    return losses, weight, statistics.positive, statistics.negative


@pytest.mark.parametrize("name", ["sigmoid", "softmax"])
def test_trajectories(golden, interpreted, name):
    case = golden(f"{name}_eql_trajectory")
    losses, weight, positive, negative = interpreted(replay_trajectory, case, name == "sigmoid")
    close = {"rtol": 1e-9, "atol": 1e-12}
    assert_close(losses, case["losses"], **close)
    if name == "sigmoid":
        weight = torch.cat([weight[:-1], -weight[-1:]])
    assert_close(weight, tensor(case["W_final"]), **close)
    assert_close(positive, tensor(case["pos_grad_final"]), **close)
    if "neg_grad_final" in case:
        assert_close(negative, tensor(case["neg_grad_final"])[: len(negative)], **close)


def replay_focal(steps, num_classes, hyper, has_quality, world_size=1):
    """EFL or EQFL; `steps` holds what each rank has in a step. With s = 0 it is the focal loss."""
    statistics, replayed = Statistics(num_classes), []
    balance = hyper.get("alpha", -1)
    for ranks in steps:
        focus, weight = focal_weights(
            statistics.positive, statistics.negative, base_focus=hyper["gamma_b"], focus_scale=hyper.get("s", 0.0)
        ).run()
        results = []
        for step in ranks:
            results.append(
                binary_cross_entropy(
                    tensor(step["logits"]),
                    focal_labels(step["labels"]),
                    weight,
                    weight,
                    focus=focus,
                    positive_balance=None if balance < 0 or has_quality else balance,
                    quality=tensor(step["quality"]) if has_quality else None,
                    normalizer=(step["normalizer"] or 1.0) / hyper["loss_weight"],
                ).run()
            )
        statistics.add(torch.stack([result.record for result in results]).sum(0), is_divided=True)
        replayed.append([statistics.step(result.loss, backward(result), (focus, weight)) for result in results])
    return replayed


@pytest.mark.parametrize(
    "name",
    ["efl_default", "efl_levels", "efl_no_alpha", "eqfl_default", "eqfl_levels", "focal_loss", "quality_focal_loss"],
)
def test_focal_losses(golden, interpreted, name):
    case = golden(name)
    steps = [[step] for step in case["steps"]]
    has_quality = "quality" in case["steps"][0]
    replayed = interpreted(replay_focal, steps, case["num_classes"], case["hyper"], has_quality)
    for (step,), expected in zip(replayed, case["steps"], strict=True):
        if "gamma_used" in expected:
            assert_close(step.weights[0], tensor(expected["gamma_used"]), rtol=1e-9, atol=1e-9)
            assert_close(step.weights[1], tensor(expected["weight_used"]), rtol=1e-9, atol=1e-9)
    assert_steps([step for (step,) in replayed], case["steps"])


def replay_varifocal(case, constant_weight):
    result = binary_cross_entropy(
        tensor(case["logits"]),
        torch.tensor(case["labels"]),
        negative_weight=case["alpha"],
        focus=case["gamma"],
        quality=tensor(case["quality"]),
        weigh_by_quality=True,
        constant_weight=constant_weight,
        reduction="sum",
    ).run()
    return result.loss, backward(result)


@pytest.mark.parametrize(("key", "constant_weight"), [("differentiated", False), ("constant", True)])
def test_varifocal_losses(golden, interpreted, key, constant_weight):
    case = golden("varifocal")
    loss, gradient = interpreted(replay_varifocal, case, constant_weight)
    assert_close(loss.item(), case[key]["loss_sum"], rtol=1e-9, atol=0)
    assert_close(gradient, tensor(case[key]["gradient"]), rtol=1e-9, atol=1e-12)


def replay_module(build, cases):
    """Loss and gradient of a whole loss module, which uses the kernels."""
    os.environ["EQUIGRAD_KERNELS"] = "triton"
    try:
        loss, results = build(), []
        for logits, labels in cases:
            value = loss(logits.requires_grad_(), labels)
            results.append((value.detach(), *torch.autograd.grad(value, logits)))
        return results
    finally:
        del os.environ["EQUIGRAD_KERNELS"]


def assert_module(results, expected_steps):
    for (loss, gradient), expected in zip(results, expected_steps, strict=True):
        assert_close(loss, tensor(expected["loss"]), rtol=1e-9, atol=0)
        assert_close(gradient, tensor(expected["grad_logits"]), rtol=1e-9, atol=1e-11)


def test_balanced_softmax(golden, interpreted):
    case = golden("class_count_losses")
    batch = tensor(case["logits"]), torch.tensor(case["labels"])
    results = interpreted(replay_module, partial(BalancedSoftmaxLoss, case["class_counts"]), [batch])
    assert_module(results, [case["results"]["balanced_softmax"]])


def test_gradient_blocking(golden, interpreted):
    case = golden("grad_blocking")
    build = partial(GradientBlockingLoss, case["class_frequency"], threshold=case["hyper"]["lambda_"])
    batches = []
    for step in case["steps"]:
        labels = torch.tensor(step["labels"])
        batches.append((tensor(step["logits"]), labels.masked_fill(labels == case["background_label"], BACKGROUND)))
    assert_module(interpreted(replay_module, build, batches), case["steps"])


def test_efl_on_two_ranks(golden, interpreted):
    """Their statistics are `world_size` times ours, a factor that cancels in the ratio."""
    case = golden("efl_two_ranks")
    hyper = {"gamma_b": 2.0, "s": 8.0, "alpha": 0.25, "loss_weight": 1.0}
    steps = list(zip(*case["ranks"], strict=True))
    replayed = interpreted(replay_focal, steps, case["num_classes"], hyper, False)
    for rank, expected_steps in enumerate(case["ranks"]):
        own = [step[rank] for step in replayed]
        doubled = [step._replace(positive=2 * step.positive, negative=2 * step.negative) for step in own]
        assert_steps(doubled, expected_steps)


def assert_steps(steps, expected_steps):
    close = {"rtol": 1e-9, "atol": 1e-12}
    for step, expected in zip(steps, expected_steps, strict=True):
        assert_close(step.loss.item(), expected["loss"], **close)
        if "grad_logits" in expected:
            assert_close(step.gradient, tensor(expected["grad_logits"]), **close)
        if "pos_grad_after" in expected:
            assert_close(step.positive, tensor(expected["pos_grad_after"]), **close)
            assert_close(step.negative, tensor(expected["neg_grad_after"]), **close)
