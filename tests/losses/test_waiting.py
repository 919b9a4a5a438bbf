"""Losses do not make the host wait for their device; here on the plain device path."""

import pytest

from equigrad import one_batch
from losses.all_losses import CASES
from waiting import Wait, to_device, watched

COPIES_RANDOM_NUMBERS = {"federated", "BAGS"}  # the same as on a CPU, so they are drawn there


@pytest.mark.parametrize("name", CASES)
def test_a_call_waits_for_nothing_but_random_numbers(name):
    case = CASES[name]
    batch = case.batch()
    with watched() as waits:
        loss, arguments = to_device(case.build()), to_device([value.detach() for value in batch])
        arguments[0].requires_grad_()
        loss(*arguments).backward()
    drawn = Wait("copy to the device", "losses/seeded_uniform.py", "SeededUniform.forward")
    assert set(waits) == ({drawn} if name in COPIES_RANDOM_NUMBERS else set())


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
