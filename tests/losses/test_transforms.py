"""Losses inside the transforms of `torch.func`."""

import copy

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vjp, vmap
from torch.testing import assert_close

from equigrad.losses import reference
from losses.all_losses import CASES


def assert_trains_alike(case, *, steps=2, **options):
    """`torch.func.grad` of a model with its loss, against backward: gradients of the parameters, and state."""
    loss, layer = case.build(**options), nn.Linear(case.num_logits, case.num_logits).double()
    twin, parameters = copy.deepcopy(loss), dict(layer.named_parameters())

    def value(parameters, features, labels, *extra):
        return loss(functional_call(layer, parameters, (features,)), labels, *extra).sum()

    for seed in range(steps):
        features, *others = case.batch(seed=seed)
        features = features.detach()
        expected = torch.autograd.grad(twin(layer(features), *others).sum(), tuple(parameters.values()))
        assert_close(tuple(grad(value)(parameters, features, *others).values()), expected)
    assert_close(loss.state_dict(), twin.state_dict())


@pytest.mark.parametrize("name", CASES)
def test_a_model_with_its_loss_trains_by_torch_func_as_by_backward(name):
    assert_trains_alike(CASES[name])


@pytest.mark.parametrize("name", ["Softmax-EQL", "EFL", "Seesaw", "LDAM", "BAGS"])
def test_values_of_each_sample_train_by_torch_func(name):
    assert_trains_alike(CASES[name], steps=1, reduction="none")


def test_a_batch_that_is_not_finite_is_left_out():
    loss, batch = CASES["Sigmoid-EQL"].build(half_life=3.0), CASES["Sigmoid-EQL"].batch()
    before = copy.deepcopy(loss.statistics.positive)
    grad(lambda logits: loss(logits, batch.labels))(torch.full_like(batch.logits, torch.nan))
    assert loss.statistics.skipped == 1
    assert torch.equal(loss.statistics.positive, before)


def test_the_product_with_a_vector_may_be_asked_for_more_than_once():
    loss, batch = CASES["EFL"].build().eval(), CASES["EFL"].batch()
    value, product = vjp(lambda logits: loss(logits, batch.labels), batch.logits.detach())
    (expected,) = torch.autograd.grad(loss(*batch), batch.logits)
    for factor in (1.0, 3.0):
        assert_close(product(torch.full_like(value, factor))[0], factor * expected)


def test_a_second_derivative_is_refused():
    loss, batch = CASES["Softmax-EQL"].build(), CASES["Softmax-EQL"].batch()
    slope = grad(lambda logits: loss(logits, batch.labels))
    with pytest.raises(RuntimeError, match="cannot be differentiated twice"):
        grad(lambda logits: slope(logits).square().sum())(batch.logits.detach())


def test_a_refused_batch_is_refused_with_its_own_error():
    loss, batch = CASES["federated"].build(), CASES["federated"].batch()
    batch.labels[0] = 4
    with pytest.raises(ValueError, match=r"labels must be 0 ... 3"):
        grad(lambda logits: loss(logits, batch.labels))(batch.logits.detach())
    assert loss.uniform.num_calls == 0


def test_a_plain_formula_gives_the_gradient_of_each_sample():
    batch = CASES["EFL"].batch()

    def value(row, label):
        return reference.focal(row.unsqueeze(0), label.unsqueeze(0), 2.0, 0.25).sum()

    (expected,) = torch.autograd.grad(reference.focal(*batch, 2.0, 0.25).sum(), batch.logits)
    assert_close(vmap(grad(value))(batch.logits.detach(), batch.labels), expected)
