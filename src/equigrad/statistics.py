"""Accumulated gradient of every category: the indicator all equalization losses read (Sec. 3.2)."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Self

import torch
import torch.distributed as dist
from torch import Tensor, nn


class ExactModule(nn.Module):
    """A module whose float64 buffers follow the model to its device but never to its dtype.

    `model.half()` must not round what was summed over a whole training.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        exact = {name: b for name, b in self._buffers.items() if b is not None and b.dtype == torch.float64}
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, before in exact.items():
            moved = getattr(self, name)
            source = moved if before.is_meta else before
            setattr(self, name, source.to(moved.device, torch.float64))
        return self


def is_distributed() -> bool:
    """Whether there are ranks to agree with."""
    return dist.is_available() and dist.is_initialized()


@torch.no_grad()
def sum_over_ranks(values: Tensor) -> Tensor:
    """The sum of what all ranks hold, in place; one collective, or nothing without `torch.distributed`."""
    if is_distributed():
        dist.all_reduce(values)
    return values


class RecordedCall(NamedTuple):
    """The gradient sums of one call of a loss, and what the loss divides them by."""

    positive: Tensor  # (C,)
    negative: Tensor  # (C,)
    divisor: Tensor | float | None


class GradientStatistics(ExactModule):
    """Positive and negative gradient that every category has received so far (Sec. 3.2).

    The loss that owns the statistics feeds them; a user only reads them:

        criterion.statistics.ratio     # G_j: near 1 = balanced, near 0 = hardly any positive gradient

    Args:
        num_classes: C, without background.
        half_life: updates after which a gradient counts half, for streams and for heads whose first phase would distort
            the ratio for good. None never forgets, as in the paper.
    """

    positive: Tensor  # (C,)  G_j^pos
    negative: Tensor  # (C,)  G_j^neg

    def __init__(self, num_classes: int, half_life: float | None = None) -> None:
        super().__init__()
        check_num_classes(num_classes)
        _check_half_life(half_life)
        self.half_life = half_life
        self._pending: list[RecordedCall] | None = None  # the calls of a `one_batch` that is open
        # float64: a float32 sum stops growing after enough steps.
        self.register_buffer("positive", torch.zeros(num_classes, dtype=torch.float64))
        self.register_buffer("negative", torch.zeros(num_classes, dtype=torch.float64))

    @property
    def num_classes(self) -> int:
        """C, without background."""
        return self.positive.numel()

    @property
    def ratio(self) -> Tensor:
        """G_j, (C,). Infinite, hence balanced, until a negative gradient arrives."""
        return torch.where(self.negative > 0, self.positive / self.negative, torch.inf)

    @torch.no_grad()
    def update(self, positive: Tensor, negative: Tensor, divisor: Tensor | float | None = None) -> None:
        """Add one batch as if all ranks were one; every rank must call, also without samples.

        Args:
            positive: (C,) sums of |d summed loss / d logit| over the entries whose category is the label.
            negative: (C,) the same over all other entries.
            divisor: what the loss of this rank divides its sum by; None if it does not.
        """
        for name, sums in (("positive", positive), ("negative", negative)):
            if sums.shape != self.positive.shape:
                raise ValueError(f"{name} must be ({self.num_classes},), got {tuple(sums.shape)}")
        call = RecordedCall(positive, negative, divisor)
        if self._pending is None:
            self._add([call])
        else:
            self._pending.append(call)

    def _add(self, calls: Sequence[RecordedCall]) -> None:
        """Add the calls of one batch, each divided by its own divisor."""
        calls = _join_by_divisor(calls)
        if is_distributed():
            calls = _joined_over_ranks(calls)
        if self.half_life is not None:
            kept = 0.5 ** (1 / self.half_life)
            self.positive.mul_(kept)
            self.negative.mul_(kept)
        for positive, negative, divisor in calls:
            count = torch.as_tensor(1 if divisor is None else divisor, dtype=torch.float64, device=positive.device)
            # Without a sample on any rank the sums are zero too: 0 / tiny adds nothing.
            count = count.clamp(min=torch.finfo(torch.float64).tiny)
            self.positive.addcdiv_(positive.double(), count)
            self.negative.addcdiv_(negative.double(), count)

    def reset(self) -> None:
        """Forget everything: the next step is that of an untouched loss."""
        self.positive.zero_()
        self.negative.zero_()

    def extra_repr(self) -> str:
        """The number of categories, for `print(model)`."""
        return f"num_classes={self.num_classes}" + ("" if self.half_life is None else f", half_life={self.half_life}")


def _join_by_divisor(calls: Sequence[RecordedCall]) -> list[RecordedCall]:
    """Add up calls that share a divisor, the same object: that does not depend on values, so all ranks do the same."""
    groups: list[list[RecordedCall]] = []
    for call in calls:
        group = next((group for group in groups if group[0].divisor is call.divisor), None)
        if group is None:
            groups.append([call])
        else:
            group.append(call)
    return [
        group[0]
        if len(group) == 1
        else RecordedCall(
            torch.stack([call.positive for call in group]).sum(0),
            torch.stack([call.negative for call in group]).sum(0),
            group[0].divisor,
        )
        for group in groups
    ]


def _joined_over_ranks(calls: Sequence[RecordedCall]) -> list[RecordedCall]:
    """The same calls summed over ranks, sums and divisors, in one collective of K (2C + 1) numbers."""
    num_classes = calls[0].positive.numel()
    rows = []
    for positive, negative, divisor in calls:
        count = torch.as_tensor(1 if divisor is None else divisor, dtype=torch.float64, device=positive.device)
        rows.append(torch.cat([positive.double(), negative.double(), count.reshape(1)]))
    joined = sum_over_ranks(torch.stack(rows))
    return [
        RecordedCall(row[:num_classes], row[num_classes:-1], None if call.divisor is None else row[-1])
        for row, call in zip(joined, calls, strict=True)
    ]


@contextmanager
def one_batch(module: nn.Module, *, divisor: Tensor | float | None = None) -> Iterator[None]:
    """Let the losses inside a module take several calls for one batch: pyramid levels, tiles, micro-batches.

        with equigrad.one_batch(criterion):
            loss = sum(criterion(logits, labels) for logits, labels in levels)

    Inside, every call has the weights of earlier batches. At the end the statistics move once: by the gradient of each
    call over its own divisor, and with a `half_life` by one step of forgetting. If an exception leaves the block, they
    stay as they were.

    With `torch.distributed` there is one collective at the end, of K (2C + 1) numbers for K calls (calls that share one
    `normalizer` tensor, float64, or are not divided count as one). Every rank must make the same calls. Blocks cannot
    be nested.

    Args:
        module: a loss, or a model that holds some.
        divisor: what the caller divides the sum of the calls by, if it does that itself; every call then has
            `reduction="sum"` or `normalizer=1.0`.
    """
    statistics = [part for part in module.modules() if isinstance(part, GradientStatistics)]
    if any(part._pending is not None for part in statistics):
        raise RuntimeError("one_batch cannot be nested: these statistics are inside a one_batch that is still open")
    for part in statistics:
        part._pending = []
    try:
        yield
        pending = [part._pending or [] for part in statistics]
    finally:
        for part in statistics:
            part._pending = None
    with torch.no_grad():
        for part, calls in zip(statistics, pending, strict=True):
            if calls:
                part._add(calls if divisor is None else [call._replace(divisor=divisor) for call in calls])


def check_num_classes(num_classes: int) -> None:
    """Refuse a C that is no positive int."""
    if isinstance(num_classes, bool) or not isinstance(num_classes, int):
        raise TypeError(f"num_classes must be an int, got {type(num_classes).__name__}")
    if num_classes < 1:
        raise ValueError(f"num_classes must be at least 1, got {num_classes}")


def _check_half_life(half_life: float | None) -> None:
    if half_life is None:
        return
    if isinstance(half_life, bool) or not isinstance(half_life, int | float):
        raise TypeError(f"half_life must be a number of updates or None, got {type(half_life).__name__}")
    if not (math.isfinite(half_life) and half_life > 0):
        raise ValueError(f"half_life must be finite and > 0, got {half_life}")
