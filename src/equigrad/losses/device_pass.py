"""A pass of the Triton kernels in the place of a `BlockwisePass`."""

from typing import NamedTuple

import torch
from torch import Tensor

from equigrad.losses.blockwise import DeviceSums, GradientSums, closed_form
from equigrad.losses.kernels import launch, statistics as statistics_kernel
from equigrad.losses.kernels.totals import Pass, PassResult
from equigrad.statistics import GradientStatistics, sum_over_ranks


class DeviceRun(NamedTuple):
    """What `ClosedForm` takes: the gradient is that of the undivided loss, in the logits' shape."""

    value: Tensor
    gradient: Tensor | None
    safe_divisor: Tensor
    graph_anchor: Tensor | None
    stored_divisor: None = None  # the gradient is not divided
    is_rows: bool = False
    scale: float = 1.0


def finish(logits: Tensor, device_pass: Pass, *, is_divided: bool, message: str) -> tuple[Tensor, GradientSums]:
    """Launch a pass; its loss, differentiable by the logits, and its gradient sums. Nothing waits for the device.

    Args:
        logits: (N, C, ...).
        device_pass: that is set up for them.
        is_divided: whether the loss is divided by something.
        message: error message if a label, target or quality is out of range, or a normalizer is not above 0.
    """
    result: PassResult = device_pass.run()
    if logits.device.type == "cpu":  # in Triton's interpreter
        if not bool(result.is_valid):
            raise ValueError(message)
    else:
        torch._assert_async(result.is_valid, message)
    anchor = None if result.gradient is None else logits.narrow_copy(0, 0, 0)
    loss: Tensor = closed_form().apply(logits, DeviceRun(result.loss, result.gradient, result.divisor, anchor))
    divisor = result.record[-1] if is_divided else None
    sums = DeviceSums(result.positive, result.negative, divisor)
    sums.record = result.record
    return loss, sums


@torch.no_grad()
def add_to_statistics(statistics: GradientStatistics, sums: DeviceSums) -> None:
    """`GradientStatistics.update` by one kernel, after one collective where there are ranks."""
    launch.run(
        statistics_kernel.update_statistics(
            statistics.positive,
            statistics.negative,
            statistics.skipped,
            sum_over_ranks(sums.record),
            is_divided=sums.divisor is not None,
            kept=statistics.kept,
        )
    )
