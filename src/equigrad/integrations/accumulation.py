"""Micro-batches of a host's loop as one batch: the statistics move when its optimiser does."""

from contextlib import AbstractContextManager
from typing import Any

from torch import nn
from torch.optim import Optimizer

from equigrad.statistics import one_batch


class BatchPerStep:
    """All calls of the losses inside a module, up to a step of the optimiser, are one batch.

    A loop of your own says `with equigrad.one_batch(criterion):` around its micro-batches. Where a host owns the loop
    and accumulates gradients, this does the same from outside:

        batches = integrations.BatchPerStep(model, optimizer, micro_batches=4)
        ...                  # the host trains
        batches.close()

    Calls after the last step are forgotten when training ends in the middle of a batch, as their gradient is.

    Args:
        module: a loss, or a model that holds some.
        optimizer: that of the host's loop. One that wraps another, as Accelerate's does, is unwrapped first.
        micro_batches: k, if the host divides the loss of each micro-batch by k; 1 if the losses are given a
            `normalizer` of the whole batch.
    """

    def __init__(self, module: nn.Module, optimizer: Optimizer, *, micro_batches: int = 1) -> None:
        self.module = module
        self.micro_batches = micro_batches
        self._batch = self._opened()
        self._hook = optimizer.register_step_post_hook(self._end_batch)

    def close(self) -> None:
        """Let every call be a batch of its own again."""
        self._hook.remove()
        _end(self._batch, forget=True)

    def _opened(self) -> AbstractContextManager[None]:
        batch = one_batch(self.module, micro_batches=self.micro_batches)
        batch.__enter__()
        return batch

    def _end_batch(self, *_: Any) -> None:
        _end(self._batch)
        self._batch = self._opened()


class _Forgotten(Exception):
    """Leaves a `one_batch`, which then records nothing."""


def _end(batch: AbstractContextManager[None], *, forget: bool = False) -> None:
    if forget:
        batch.__exit__(_Forgotten, _Forgotten(), None)
    else:
        batch.__exit__(None, None, None)
