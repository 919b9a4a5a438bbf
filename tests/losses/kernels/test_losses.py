"""Every loss module through the kernels: the same training as with the blocks of a CPU."""

import os

import pytest
import torch
from torch.testing import assert_close

from losses.all_losses import CASES


def train(name, kernels, *, dtype=torch.float64, shape=(13,), **options):
    """Loss and gradient of some steps, and the state after them, with a choice of kernels."""
    os.environ["EQUIGRAD_KERNELS"] = kernels
    try:
        case = CASES[name]
        loss, steps = case.build(**options), []
        for seed in range(3):
            batch = case.batch(*shape, seed=seed, dtype=dtype)
            value = loss(*batch)
            steps.append((value.detach(), *torch.autograd.grad(value, batch.logits)))
        return steps, dict(loss.state_dict())
    finally:
        del os.environ["EQUIGRAD_KERNELS"]


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("name", CASES)
def test_a_loss_trains_the_same_with_every_kernel(interpreted, name, reduction):
    expected = train(name, "blocks", reduction=reduction)
    assert_close(interpreted(train, name, "triton", reduction=reduction), expected)
    assert_close(train(name, "torch", reduction=reduction), expected)


def train_on_soft_targets(name, kernels):
    """The same with the soft targets of a dense head."""
    os.environ["EQUIGRAD_KERNELS"] = kernels
    try:
        loss, steps = CASES[name].build(), []
        for seed in range(3):
            logits, _, quality = CASES[name].batch(2, 5, seed=seed)
            targets = quality.unsqueeze(1) * (logits.detach().sin() > 0.6)
            value = loss(logits, targets)
            steps.append((value.detach(), *torch.autograd.grad(value, logits)))
        return steps, dict(loss.state_dict())
    finally:
        del os.environ["EQUIGRAD_KERNELS"]


@pytest.mark.parametrize("name", ["BCE of qualities", "Sigmoid-EQL of qualities", "EQFL", "VFL", "EVFL"])
def test_soft_targets_train_the_same_with_every_kernel(interpreted, name):
    expected = train_on_soft_targets(name, "blocks")
    assert_close(interpreted(train_on_soft_targets, name, "triton"), expected)
    assert_close(train_on_soft_targets(name, "torch"), expected)


def refuses_smoothed_targets(name):
    os.environ["EQUIGRAD_KERNELS"] = "triton"
    try:
        CASES[name].build()(torch.zeros(5, 4), torch.full((5, 4), 0.1))
    except ValueError as error:
        return str(error)
    finally:
        del os.environ["EQUIGRAD_KERNELS"]


def test_smoothed_targets_are_refused_before_a_kernel_runs(interpreted):
    assert "leave out label smoothing" in interpreted(refuses_smoothed_targets, "EQFL")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("name", ["Sigmoid-EQL", "Softmax-EQL", "EFL", "EQFL"])
def test_maps_and_lower_precision_train_the_same(interpreted, name, dtype):
    expected = train(name, "blocks", dtype=dtype, shape=(2, 3, 2))
    assert_close(interpreted(train, name, "triton", dtype=dtype, shape=(2, 3, 2)), expected)


def refused(name, change):
    os.environ["EQUIGRAD_KERNELS"] = "triton"
    batch = CASES[name].batch()
    options = change(batch) or {}
    try:
        CASES[name].build()(*batch, **options)
    except ValueError as error:
        return str(error)
    finally:
        del os.environ["EQUIGRAD_KERNELS"]
    return None


def with_a_label_too_large(batch):
    batch.labels[3] = 4


def with_a_bad_quality(batch):
    batch.labels[2] = 0
    batch.extra[0][2] = 1.5


def with_no_normalizer(batch):
    return {"normalizer": torch.zeros(())}


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("Sigmoid-EQL", with_a_label_too_large, "labels must be 0 ... 3, BACKGROUND"),
        ("Softmax-EQL", with_a_label_too_large, "labels must be 0 ... 3, or ignore_index"),
        ("EQFL", with_a_bad_quality, "qualities within [0, 1]"),
        ("Sigmoid-EQL", with_no_normalizer, "a normalizer finite and > 0"),
    ],
)
def test_a_kernel_refuses_what_is_out_of_range(interpreted, name, change, message):
    assert message in interpreted(refused, name, change)


def statistics_after_a_bad_batch(kernels):
    os.environ["EQUIGRAD_KERNELS"] = kernels
    try:
        loss, batch = CASES["Sigmoid-EQL"].build(), CASES["Sigmoid-EQL"].batch()
        loss(*batch)
        loss(torch.full_like(batch.logits, torch.nan).requires_grad_(), batch.labels)
        return dict(loss.state_dict())
    finally:
        del os.environ["EQUIGRAD_KERNELS"]


def test_a_batch_that_is_not_finite_is_left_out_and_counted(interpreted):
    result = interpreted(statistics_after_a_bad_batch, "triton")
    assert result["statistics.skipped"] == 1
    assert_close(result, statistics_after_a_bad_batch("blocks"))
