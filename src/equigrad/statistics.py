"""Accumulated gradient of every category: the indicator all equalization losses read (Sec. 3.2)."""

import math
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple, Self

import torch
import torch.distributed as dist
from torch import Tensor, nn


class ExactModule(nn.Module):
    """A module whose buffers follow the model to its device but never to its dtype.

    `model.half()` must not round what was summed over a whole training. Built on the `meta` device and given memory by
    `to_empty`, state starts at zero. What was computed from arguments cannot be restored, so losing it is an error.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        exact = {name: buffer for name, buffer in self._buffers.items() if buffer is not None}
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, before in exact.items():
            moved = getattr(self, name)
            if not before.is_meta:
                setattr(self, name, before.to(moved.device))
            elif not moved.is_meta:
                if name in self._non_persistent_buffers_set:
                    raise RuntimeError(
                        f"{type(self).__name__}.{name} was lost on the meta device: build the loss itself on a real "
                        "device, or again after to_empty"
                    )
                setattr(self, name, torch.zeros_like(moved, dtype=before.dtype))
        return self


def is_distributed() -> bool:
    """Whether there is more than this process: `torch.distributed` is initialised."""
    return dist.is_available() and dist.is_initialized()


@torch.no_grad()
def sum_over_ranks(values: Tensor) -> Tensor:
    """Sum a tensor over all ranks, in place: one collective, or nothing without `torch.distributed`."""
    if is_distributed():
        dist.all_reduce(values)
    return values


def is_host(values: Tensor) -> bool:
    """Whether reading a value is free: on a device the host would wait, and a compiler would break the graph."""
    return values.is_cpu and not torch.compiler.is_compiling()


def is_recomputing() -> bool:
    """Whether `torch.utils.checkpoint` is repeating a forward pass that was already recorded.

    It does so inside backward, with hooks on what autograd saves. The reentrant variant has no hooks and runs its first
    pass without gradients, so there the second pass is the one to record.
    """
    if torch.compiler.is_compiling() or torch._C._current_graph_task_id() == -1:  # not inside backward
        return False
    return torch._C._autograd._top_saved_tensors_default_hooks(False) is not None


# Two threads that add at the same time would lose one of the batches. One lock for all: it is held for microseconds,
# and a lock of each module could be neither copied nor pickled.
_adding = threading.Lock()


class Recorded:
    """A call and the one before it. For each length of a list `torch.compile` would compile the model anew."""

    def __init__(self, call: Any, before: "Recorded | None") -> None:
        self.call = call
        self.before = before


class OpenBatch:
    """A `one_batch` that has not ended."""

    def __init__(self, divisor: Tensor | float | None) -> None:
        self.divisor = divisor
        self.last = Recorded(None, None)

    def add(self, call: Any) -> None:
        """Add a call; threads may."""
        with nullcontext() if torch.compiler.is_compiling() else _adding:
            self.last = Recorded(call, self.last)

    def calls(self) -> list[Any]:
        """The calls so far, the first one first."""
        calls, last = [], self.last
        while last.before is not None:
            calls.append(last.call)
            last = last.before
        return calls[::-1]


class BatchedState(ExactModule):
    """State that is updated once per batch, however many calls the batch has; see `one_batch`."""

    _open: OpenBatch | None = None

    def __getstate__(self) -> dict[str, Any]:
        """A copy is not in a `one_batch`, because nothing would end it."""
        return {name: value for name, value in vars(self).items() if name != "_open"}

    @property
    def is_open(self) -> bool:
        """Whether calls are being gathered by a `one_batch`."""
        return self._open is not None

    def record_call(self, call: Any) -> None:
        """Add a call: at once, or at the end of the `one_batch` that is open."""
        if self._open is None:
            self.add_batch([call], micro_batches=1)
        else:
            self._open.add(call)

    @abstractmethod
    def add_batch(self, calls: Sequence[Any], *, micro_batches: int) -> None:
        """Move the state by the calls of one batch, which the caller takes the mean of over its micro-batches."""


class RecordedCall(NamedTuple):
    """The gradient sums of one call of a loss, and what the loss divides them by."""

    positive: Tensor  # (C,)
    negative: Tensor  # (C,)
    divisor: Tensor | float | None


class GradientStatistics(BatchedState):
    """Positive and negative gradient that every category has received so far (Sec. 3.2).

    The loss that owns the statistics feeds them; a user only reads them:

        criterion.statistics.ratio     # G_j: near 1 = balanced, near 0 = hardly any positive gradient
        criterion.statistics.skipped   # batches left out because their gradient was not finite

    Args:
        num_classes: C, without background.
        half_life: number of updates after which a gradient counts half, for streams and for heads whose first phase
            would distort the ratio permanently. None never forgets, as in the paper.
    """

    positive: Tensor  # (C,)  G_j^pos
    negative: Tensor  # (C,)  G_j^neg
    skipped: Tensor  # () int64

    def __init__(self, num_classes: int, half_life: float | None = None) -> None:
        super().__init__()
        check_num_classes(num_classes)
        _check_half_life(half_life)
        self.half_life = half_life
        # float64: a float32 sum stops growing after enough steps.
        self.register_buffer("positive", torch.zeros(num_classes, dtype=torch.float64))
        self.register_buffer("negative", torch.zeros(num_classes, dtype=torch.float64))
        self.register_buffer("skipped", torch.zeros((), dtype=torch.int64))

    @property
    def num_classes(self) -> int:
        """C, without background."""
        return self.positive.numel()

    @property
    def kept(self) -> float:
        """The share of earlier gradient that is left after an update."""
        return 1.0 if self.half_life is None else 0.5 ** (1 / self.half_life)

    @property
    def ratio(self) -> Tensor:
        """G_j, (C,). Infinite, hence balanced, until a negative gradient arrives."""
        return (self.positive / self.negative).nan_to_num_(nan=torch.inf, posinf=torch.inf)  # 0 / 0 is NaN

    def update(self, positive: Tensor, negative: Tensor, divisor: Tensor | float | None = None) -> None:
        """Add one batch as if all ranks were one; every rank must call, also without samples.

        A batch whose sums are not finite leaves the statistics as they are and is counted in `skipped`, on all ranks
        alike. Nothing waits for the device.

        Args:
            positive: (C,) sums of |d summed loss / d logit| over the entries whose category is the label.
            negative: (C,) the same over all other entries.
            divisor: the number by which the loss of this rank divides its sum; None if it does not divide.
        """
        shape = self.positive.shape
        if positive.shape != shape or negative.shape != shape:
            name, sums = ("positive", positive) if positive.shape != shape else ("negative", negative)
            raise ValueError(f"{name} must be {tuple(shape)}, got {tuple(sums.shape)}")
        if self._open is not None and self._open.divisor is not None:
            divisor = self._open.divisor
        self.record_call(RecordedCall(positive.detach(), negative.detach(), divisor))

    def add_batch(self, calls: Sequence[RecordedCall], *, micro_batches: int) -> None:
        """Add the calls of one batch, each divided by its own divisor."""
        if len(calls) > 1:
            calls = _join_by_divisor(calls)
        if is_distributed():
            calls = _joined_over_ranks(calls)
        with nullcontext() if torch.compiler.is_compiling() else _adding:
            before = positive, negative = self.positive, self.negative
            shares = [_share(call.divisor, positive, micro_batches) for call in calls]
            # The usual batch on a CPU: sums so small make nothing infinite.
            is_safe = is_host(positive) and all(map(_is_moderate, calls, shares))
            out = before if is_safe else (None, None)
            if self.half_life is not None:
                positive = torch.mul(positive, self.kept, out=out[0])
                negative = torch.mul(negative, self.kept, out=out[1])
            for call, share in zip(calls, shares, strict=True):
                if isinstance(share, float):
                    positive = torch.add(positive, call.positive, alpha=share, out=out[0])
                    negative = torch.add(negative, call.negative, alpha=share, out=out[1])
                else:
                    positive = torch.addcmul(positive, call.positive, share)
                    negative = torch.addcmul(negative, call.negative, share)
            if is_safe:
                return
            is_finite = positive.isfinite().all() & negative.isfinite().all()
            torch.where(is_finite, positive, before[0], out=before[0])
            torch.where(is_finite, negative, before[1], out=before[1])
            torch.add(self.skipped, ~is_finite, out=self.skipped)

    def reset(self) -> None:
        """Forget everything: the next step is that of an untouched loss."""
        self.positive.zero_()
        self.negative.zero_()
        self.skipped.zero_()

    def extra_repr(self) -> str:
        """The number of categories, for `print(model)`."""
        return f"num_classes={self.num_classes}" + ("" if self.half_life is None else f", half_life={self.half_life}")

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        *more: Any,
    ) -> None:
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, *more)
        if f"{prefix}skipped" in missing_keys:  # a checkpoint from before batches were counted
            missing_keys.remove(f"{prefix}skipped")
            self.skipped.zero_()


def _is_moderate(call: RecordedCall, share: Tensor | float) -> bool:
    """Whether no entry of a call is NaN or above 1e200: one number for each tensor says so."""
    squares = call.positive.dot(call.positive).item() + call.negative.dot(call.negative).item()
    return bool(squares < 1e200 and share < 1e100)


def _share(divisor: Tensor | float | None, like: Tensor, micro_batches: int) -> Tensor | float:
    """What the sums of a call are multiplied by; a number where the host may look at it."""
    # Without a sample on any rank the sums are zero too, and any number will do.
    if is_host(like):
        return 1 / (micro_batches * ((1.0 if divisor is None else float(divisor)) or 1.0))
    count = micro_batches * _count(divisor, like)
    return torch.where(count > 0, count, 1.0).reciprocal()


def _count(divisor: Tensor | float | None, like: Tensor) -> Tensor:
    """A divisor as a float64 tensor on the device of `like`; 1 if there is none."""
    if isinstance(divisor, Tensor):
        return divisor.to(like.device, torch.float64)
    # Filled on the device: to copy a number there, the host would wait.
    return torch.full((), 1 if divisor is None else divisor, dtype=torch.float64, device=like.device)


def _join_by_divisor(calls: Sequence[RecordedCall]) -> list[RecordedCall]:
    """Add up calls that share a divisor, the same Tensor or none: that does not depend on values, nor on the rank."""
    groups: list[list[RecordedCall]] = []
    for call in calls:
        is_number = isinstance(call.divisor, float)  # which Python may share between equal numbers
        group = next((group for group in groups if group[0].divisor is call.divisor and not is_number), None)
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
        rows.append(torch.cat([positive.double(), negative.double(), _count(divisor, positive).reshape(1)]))
    joined = sum_over_ranks(torch.stack(rows))
    return [
        RecordedCall(row[:num_classes], row[num_classes:-1], None if call.divisor is None else row[-1])
        for row, call in zip(joined, calls, strict=True)
    ]


@contextmanager
def one_batch(
    module: nn.Module,
    *,
    divisor: Tensor | float | None = None,
    micro_batches: int = 1,
    joins: bool = False,
) -> Iterator[None]:
    """Treat several calls of the losses in a module as one batch: pyramid levels, tiles, micro-batches.

        with equigrad.one_batch(criterion):
            loss = sum(criterion(logits, labels) for logits, labels in levels)

    Inside, every call has the weights of earlier batches. At the end the statistics move once: by the gradient of each
    call over its own divisor, and with a `half_life` by one step of forgetting. If an exception leaves the block, they
    stay as they were. Threads may make the calls.

    With `torch.distributed` there is one collective at the end, of K (2C + 1) numbers for K calls (calls that share one
    `normalizer` tensor, float64, or are not divided count as one). Every rank must make the same calls. Blocks cannot
    be nested.

    Args:
        module: a loss, or a model that contains losses.
        divisor: the number by which the caller divides the sum of the calls, if it does so; every call then has
            `reduction="sum"` or `normalizer=1.0`.
        micro_batches: k, if the caller trains with the mean of k micro-batches, `(loss / k).backward()` for each.
        joins: for a model that opens a block itself: join a block around the model, if there is one.
    """
    if micro_batches < 1:
        raise ValueError(f"micro_batches must be at least 1, got {micro_batches}")
    states = [part for part in module.modules() if isinstance(part, BatchedState)]
    around = [part._open for part in states]
    if any(around) and not joins:
        raise RuntimeError("one_batch cannot be nested: these statistics are inside a one_batch that is still open")
    inside = [OpenBatch(divisor) for _ in states]
    for part, batch in zip(states, inside, strict=True):
        part._open = batch
    try:
        yield
    finally:
        for part, outer in zip(states, around, strict=True):
            part._open = outer
    for part, outer, batch in zip(states, around, inside, strict=True):
        calls = batch.calls()
        if outer is not None:
            for call in calls:
                outer.add(call)
        elif calls:
            part.add_batch(calls, micro_batches=micro_batches)


def find_statistics(module: nn.Module) -> dict[str, GradientStatistics]:
    """The gradient statistics in a loss or model, by path."""
    return {path: part for path, part in module.named_modules() if isinstance(part, GradientStatistics)}


@torch.no_grad()
def copy_statistics(source: nn.Module, target: nn.Module) -> None:
    """Copy gradient statistics between modules of the same kind, such as from a model to its averaged copy.

        averaged.update_parameters(model)          # averages buffers too, also the statistics, which are sums
        equigrad.copy_statistics(model, averaged)

    Args:
        source: a loss, or a model that contains losses.
        target: a module with as many statistics, in the same order and of the same sizes, possibly in a wrapper.
    """
    sources, targets = (list(find_statistics(module).values()) for module in (source, target))
    sizes = [[part.num_classes for part in parts] for parts in (sources, targets)]
    if sizes[0] != sizes[1]:
        raise ValueError(
            f"source and target must have the same statistics, got those of {sizes[0]} and of {sizes[1]} categories"
        )
    for own, other in zip(sources, targets, strict=True):
        for name in ("positive", "negative", "skipped"):
            getattr(other, name).copy_(getattr(own, name))


def check_num_classes(num_classes: int) -> None:
    """Raise an error unless C is a positive int."""
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
