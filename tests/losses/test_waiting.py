"""Losses do not make the host wait for their device; here on the plain device path."""

import pytest

from equigrad import one_batch
from losses.all_losses import CASES
from waiting import to_device, watched


@pytest.mark.parametrize("name", CASES)
def test_a_call_waits_for_nothing(name):
    case = CASES[name]
    batch = case.batch()
    with watched() as waits:
        loss, arguments = to_device(case.build()), to_device([value.detach() for value in batch])
        arguments[0].requires_grad_()
        loss(*arguments).backward()
    assert waits == []


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_statistics_of_several_calls_wait_for_nothing(reduction):
    case = CASES["Sigmoid-EQL"]
    batch = case.batch()
    with watched() as waits:
        loss, arguments = to_device(case.build(reduction=reduction)), to_device([value.detach() for value in batch])
        arguments[0].requires_grad_()
        with one_batch(loss):
            (loss(*arguments) + loss(*arguments)).backward()
    assert waits == []
