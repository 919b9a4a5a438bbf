"""Nothing is remembered between calls except the statistics: a long training takes no more memory than a short one."""

import gc
import os

import pytest
import torch

from losses.all_losses import CASES


@pytest.fixture(scope="module", autouse=True)
def _only_what_is_new():
    """Whatever earlier tests left is no longer gone through, which would take longer than the steps."""
    gc.collect()
    gc.freeze()


def living_tensors():
    gc.collect()
    return sum(issubclass(type(item), torch.Tensor) for item in gc.get_objects())


def usage_after(loss_fn, case, steps):
    """Tensors and open files after more steps, each with a batch of its own."""
    for step in range(steps):
        batch = case.batch(seed=step)
        loss_fn(*batch).sum().backward()
    del batch
    return living_tensors(), len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("name", CASES)
def test_steps_leave_no_tensors_and_no_open_files_behind(name):
    loss_fn = CASES[name].build()
    early = usage_after(loss_fn, CASES[name], 20)
    assert usage_after(loss_fn, CASES[name], 100) == early


def test_a_loss_that_remembers_its_batches_would_be_noticed():
    case = CASES["Sigmoid-EQL"]
    loss_fn = case.build()
    remembered = []
    loss_fn.register_forward_hook(lambda module, inputs, output: remembered.append(output))
    early, _ = usage_after(loss_fn, case, 20)
    late, _ = usage_after(loss_fn, case, 100)
    assert late >= early + 100
