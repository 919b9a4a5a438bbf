import copy

import pytest
import torch

import equigrad
from equigrad.integrations import BatchPerStep, check
from integrations.plain_run import PlainRun


class Accumulating(PlainRun):
    """A loop that knows nothing of `one_batch`, as that of a host."""

    def gradients(self, micro_batches):
        self.optimizer.param_groups[0]["lr"] = 0.0
        batches = BatchPerStep(self.module, self.optimizer, micro_batches=micro_batches)
        for rows in torch.arange(8).chunk(micro_batches):
            (self.loss(rows) / micro_batches).backward()
        self.optimizer.step()
        batches.close()
        return {name: value.grad for name, value in self.module.named_parameters()}


@pytest.mark.parametrize("micro_batches", [2, 4])
def test_micro_batches_of_a_host_are_one_batch(micro_batches):
    assert check(Accumulating, micro_batches=micro_batches).passed


def test_statistics_are_those_of_the_joined_batch():
    joined, parts = Accumulating(), Accumulating()
    joined.gradients(1)
    parts.gradients(4)
    torch.testing.assert_close(parts.module["criterion"].state_dict(), joined.module["criterion"].state_dict())


def test_calls_after_the_last_step_are_forgotten_and_later_calls_count_at_once():
    run = PlainRun()
    statistics = run.module["criterion"].statistics
    batches = BatchPerStep(run.module, run.optimizer)
    run.loss(slice(None))
    batches.close()
    assert not statistics.negative.any()
    run.loss(slice(None))
    assert statistics.negative.any()


def test_a_copy_made_inside_a_batch_moves_at_once():
    run = PlainRun()
    with equigrad.one_batch(run.module):
        run.loss(slice(None))
        copied = copy.deepcopy(run.module["criterion"])
    assert not copied.statistics.is_open
    copied(torch.randn(8, 4, requires_grad=True), run.labels)
    assert copied.statistics.negative.any()
