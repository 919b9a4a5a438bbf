"""Sigmoid losses of soft targets and qualities, such as those of YOLO and RT-DETR."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import equigrad
from equigrad import BACKGROUND
from losses.all_losses import CASES

WITH_STATISTICS = ["Sigmoid-EQL of qualities", "EQFL", "EVFL", "EVFL, constant weight"]
NAMES = [
    *("BCE of qualities", "Grad-Blocking of qualities", "federated of qualities", "ECM of qualities"),
    *("QFL", "VFL", "VFL, constant weight", "VFL, plain positives", *WITH_STATISTICS),
]
LN2 = math.log(2)
soft_losses = pytest.mark.parametrize("name", NAMES)
equalization_losses = pytest.mark.parametrize("name", WITH_STATISTICS)


def dense_targets(*shape, dtype=torch.float64):
    """As a dense head has them: most entries 0, some samples with one or two categories."""
    targets = torch.rand(shape[0], 4, *shape[1:], dtype=torch.float64)
    return targets.where(torch.rand(targets.shape) < 0.2, 0.0).to(dtype)


def logits_of(targets, dtype=torch.float64):
    return (2 * torch.randn(targets.shape, dtype=torch.float64)).to(dtype).requires_grad_()


def run(loss, *batch):
    """Value, gradient, and what was recorded."""
    statistics = getattr(loss, "statistics", None) or equigrad.GradientStatistics(4)
    before = torch.stack([statistics.positive, statistics.negative])
    value = loss(*batch)
    recorded = torch.stack([statistics.positive, statistics.negative]) - before
    return value.detach(), torch.autograd.grad(value.sum(), batch[0])[0], recorded


# ---- values


def test_sigmoid_eql_of_a_soft_target_by_hand():
    loss = equigrad.SigmoidEqualizationLoss(2, mapping="linear", positive_boost=4.0, reduction="sum")
    loss.statistics.positive.fill_(1.0)
    loss.statistics.negative.fill_(2.0)  # r = 0.5, q = 1 + 4 * 0.5 = 3
    z = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    value, gradient, recorded = run(loss, z, torch.tensor([[0.25, 0.0]]))
    assert value.item() == pytest.approx(3 * LN2 + 0.5 * LN2)  # BCE(1/2, y) is ln 2 whatever y is
    assert gradient.tolist() == [[3 * 0.25, 0.5 * 0.5]]
    # p = 1/2 is above the target, so the gradient lowers the logit. It is the gradient of a positive all the same.
    assert recorded.tolist() == [[0.75, 0.0], [0.0, 0.25]]


def test_bce_of_soft_targets_is_that_of_torch():
    targets = dense_targets(13)
    z = logits_of(targets)
    expected = F.binary_cross_entropy_with_logits(z, targets, reduction="sum") / 13
    assert_close(equigrad.BinaryCrossEntropyLoss()(z, targets), expected)
    assert_close(equigrad.SigmoidEqualizationLoss(4)(z, targets), expected)  # nothing recorded yet


def test_a_sample_weighs_the_mean_of_its_categories_in_proportion_to_their_targets():
    loss = equigrad.BinaryCrossEntropyLoss(weight=[1.0, 5.0, 9.0], reduction="none")
    z = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([[0.0, 0.2, 0.0], [0.75, 0.25, 0.0], [0.0, 0.0, 0.0]])
    expected = torch.tensor([5.0, 0.75 * 1 + 0.25 * 5, 1.0], dtype=torch.float64) * 3 * LN2
    assert_close(loss(z, targets), expected)
    assert_close(equigrad.BinaryCrossEntropyLoss(weight=[1.0, 5.0, 9.0])(z, targets), expected.mean())


@soft_losses
def test_one_soft_target_a_sample_is_a_label_with_its_quality(name):
    batch = CASES[name].batch(13)
    labels = batch.labels.masked_fill(batch.labels < 0, BACKGROUND)
    targets = torch.where(labels.unsqueeze(1) == torch.arange(4), batch.extra[0].unsqueeze(1), 0.0)
    expected = run(CASES[name].build(), batch.logits, labels, *batch.extra)
    assert_close(run(CASES[name].build(), batch.logits, targets), expected)
    assert_close(run(CASES[name].build(), batch.logits, targets > 0, targets), expected)
    assert_close(run(CASES[name].build(), batch.logits, (targets > 0).float(), *batch.extra), expected)


@soft_losses
def test_targets_of_0_and_1_are_positives_of_quality_1(name):
    hard = dense_targets(9) > 0.5
    z = logits_of(hard)
    expected = run(CASES[name].build(), z, hard, torch.ones(9))
    for targets in (hard, hard.float(), hard.double()):
        assert_close(run(CASES[name].build(), z, targets), expected)


@soft_losses
@pytest.mark.parametrize("shape", [(13,), (3, 2, 4)])
def test_value_and_gradient_are_those_of_the_plain_formula(name, shape):
    targets = dense_targets(*shape)
    z = logits_of(targets)
    value, gradient, _ = run(CASES[name].build(reduction="sum"), z, targets)
    plain, plain_gradient, _ = run(CASES[name].build(reduction="none"), z, targets)
    assert_close((value, gradient), (plain.sum(), plain_gradient))


@equalization_losses
@pytest.mark.parametrize("shape", [(13,), (3, 2, 4)])
def test_a_target_above_0_is_a_positive_of_its_category(name, shape):
    targets = dense_targets(*shape)
    _, gradient, recorded = run(CASES[name].build(), logits_of(targets), targets)
    size, is_positive = (values.movedim(1, -1).flatten(0, -2) for values in (gradient.abs(), targets > 0))
    assert_close(recorded, torch.stack([(size * is_positive).sum(0), (size * ~is_positive).sum(0)]))
    assert (recorded > 0).all()


@soft_losses
@pytest.mark.parametrize("size", [1e4, -1e4])
def test_extreme_logits_stay_finite(name, size):
    targets = dense_targets(6, dtype=torch.float32)
    z = torch.full(targets.shape, size, requires_grad=True)
    assert all(values.isfinite().all() for values in run(CASES[name].build(), z, targets))


@soft_losses
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_lower_precision_is_near_float64(name, dtype):
    targets = dense_targets(50).to(dtype)
    z = logits_of(targets, dtype)
    value, gradient, recorded = run(CASES[name].build(), z, targets)
    expected = run(CASES[name].build(), z.detach().double().requires_grad_(), targets.double())
    close = {"rtol": 2e-2 if dtype == torch.bfloat16 else 2e-3, "atol": 1e-4, "check_dtype": False}
    assert_close((value, gradient), expected[:2], **close)
    assert_close(recorded, expected[2], rtol=1e-4, atol=1e-5)


@soft_losses
def test_a_batch_without_samples_gives_a_zero_that_back_propagates(name):
    value, gradient, recorded = run(CASES[name].build(), torch.zeros(0, 4, requires_grad=True), torch.zeros(0, 4))
    assert value == recorded.abs().sum() == 0
    assert gradient.shape == (0, 4)


@equalization_losses
def test_evaluation_leaves_no_trace(name):
    loss, targets = CASES[name].build().eval(), dense_targets(9)
    before = copy.deepcopy(loss.state_dict())
    loss(logits_of(targets), targets)
    assert_close(loss.state_dict(), before, rtol=0, atol=0)


def test_objectness_is_positive_where_any_target_is_above_0():
    targets = dense_targets(9)
    z = torch.randn(9, 5, dtype=torch.float64, requires_grad=True)
    loss = equigrad.WithObjectness(CASES["Sigmoid-EQL"].build())
    expected = CASES["Sigmoid-EQL"].build()(z[:, :4], targets)
    is_object = (targets > 0).any(1).double()
    assert_close(loss(z, targets), expected + F.binary_cross_entropy_with_logits(z[:, 4], is_object))


@pytest.mark.parametrize("name", ["Sigmoid-EQL of qualities", "EVFL"])
def test_a_compiled_loss_of_soft_targets_is_one_graph(name):
    torch._dynamo.reset()
    targets = dense_targets(9)
    eager, compiled = CASES[name].build(), CASES[name].build()
    step = torch.compile(compiled, fullgraph=True, backend="aot_eager")
    for _ in range(2):
        z = logits_of(targets)
        expected, value = eager(z, targets), step(z, targets)
        assert_close(value, expected)
        assert_close(torch.autograd.grad(value, z), torch.autograd.grad(expected, z))
    assert_close(compiled.state_dict(), eager.state_dict())
    with pytest.raises(RuntimeError, match="leave out label smoothing"):
        step(z, targets.clamp(min=0.01))


# ---- errors


@soft_losses
@pytest.mark.parametrize("bad", [-0.1, 1.1, torch.nan])
def test_a_target_outside_0_to_1_is_named(name, bad):
    targets = torch.tensor([[0.0, 0.5, 0.0, 0.0], [0.0, 0.0, 0.0, bad]])
    with pytest.raises(ValueError, match=r"soft targets must be within \[0, 1\]; got .* at flat index 7"):
        CASES[name].build()(logits_of(targets), targets)


@soft_losses
def test_soft_targets_have_no_quality_beside_them(name):
    targets = torch.tensor([[0.0, 0.5, 0.0, 0.0]])
    with pytest.raises(ValueError, match="targets must be 0 or 1"):
        CASES[name].build()(logits_of(targets), targets, torch.tensor([0.5]))


@pytest.mark.parametrize("name", ["QFL", "EQFL", "VFL", "EVFL"])
def test_class_indices_need_a_quality(name):
    with pytest.raises(TypeError, match="quality must be a Tensor, got NoneType; only soft targets"):
        CASES[name].build()(torch.zeros(2, 4), torch.tensor([0, 1]))


@equalization_losses
def test_smoothed_targets_are_refused_because_nothing_in_them_is_negative(name):
    smoothed = 0.9 * F.one_hot(torch.tensor([0, 1, 2, 3]), 4) + 0.1 / 4
    loss, z = CASES[name].build(), torch.zeros(4, 4, requires_grad=True)
    before = copy.deepcopy(loss.state_dict())
    for batch in ([smoothed], [smoothed > 0, smoothed], [torch.ones(4, 4), torch.rand(4)]):
        with pytest.raises(ValueError, match=r"above 0 in all 4 categories of all samples: leave out label smoothing"):
            loss(z, *batch)
    assert_close(loss.state_dict(), before, rtol=0, atol=0)
    smoothed[3, 0] = 0  # one negative in the last sample
    assert loss(z, smoothed).isfinite()


def test_a_mixture_of_both_of_two_categories_is_no_smoothing():
    targets = torch.tensor([[0.75, 0.25], [0.5, 0.5]])
    assert equigrad.SigmoidEqualizationLoss(2)(torch.zeros(2, 2), targets).isfinite()
    assert equigrad.SigmoidEqualizationLoss(1)(torch.zeros(2, 1), targets[:, :1]).isfinite()


def test_bce_keeps_no_statistics_and_takes_smoothed_targets():
    smoothed = torch.rand(5, 4)
    z = logits_of(smoothed, torch.float32)
    expected = F.binary_cross_entropy_with_logits(z, smoothed, reduction="sum")
    assert_close(equigrad.BinaryCrossEntropyLoss(reduction="sum")(z, smoothed), expected)
