"""Micro-batches of a host's loop as one batch: the statistics move when its optimiser does."""

from typing import Any

from torch import nn
from torch.optim import Optimizer

from equigrad.statistics import one_batch


class PendingBatch:
    """A `one_batch` that one call of a host begins and another ends, with `record` or `forget`.

    Args:
        module: a loss, or a model that holds some.
        micro_batches: k, if the host divides the loss of each micro-batch by k.
    """

    def __init__(self, module: nn.Module, *, micro_batches: int = 1) -> None:
        self._context: Any = one_batch(module, micro_batches=micro_batches)
        self._context.__enter__()

    def record(self) -> None:
        """End the batch: the statistics move."""
        self._context.__exit__(None, None, None)

    def forget(self) -> None:
        """End the batch without recording it, when its gradient is discarded too."""
        self._context.__exit__(_Forgotten, _Forgotten(), None)


class _Forgotten(Exception):
    """Leaves a `one_batch`, which then records nothing."""


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
        self._batch = PendingBatch(module, micro_batches=micro_batches)
        self._hook = optimizer.register_step_post_hook(self._end_batch)

    def close(self) -> None:
        """Let every call be a batch of its own again."""
        self._hook.remove()
        self._batch.forget()

    def _end_batch(self, *_: Any) -> None:
        self._batch.record()
        self._batch = PendingBatch(self.module, micro_batches=self.micro_batches)
