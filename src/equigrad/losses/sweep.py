"""One pass over the logits in blocks: loss, closed-form gradient and per-category gradient sums together.

The gradient is the only logits-sized tensor a sweep allocates, and all that is kept for backward.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from equigrad.labels import IGNORE
from equigrad.losses.inputs import PerCategory

MAX_BLOCK_ELEMENTS = 2**21
"""8 MB of float32: what one operation on a block writes is still in cache for the next."""

MIN_BLOCK_ELEMENTS = 40_000
"""Smaller blocks cost more in calls than they save in memory; below 2^15 torch leaves an operation to one thread."""

TEMPORARY_SHARE = 1 / 24
"""Of the logits: what the temporaries of a block may take together where the bounds above allow it."""

Block = tuple[slice, ...]
"""Samples of one block: rows of (N, C), or rows and places of (N, C, M)."""


class GradientSums(NamedTuple):
    """What `GradientStatistics.update` takes: sums over the samples of |d summed loss / d logit|, (C,) float64 each."""

    positive: Tensor
    negative: Tensor
    divisor: Tensor | None  # what the loss divides its sum by


class Sweep:
    """What the blocks of one pass over logits (N, C, ...) add up to; see `functional` for the passes.

    Args:
        logits: z, (N, C, ...).
        divisor: what the sum is divided by; None if by nothing.
        margin: m_j, for a loss of s z + m.
        scale: s. The passes differentiate by s z + m, `result` takes the step from there to z.
    """

    def __init__(
        self, logits: Tensor, divisor: Tensor | None, margin: PerCategory | None = None, scale: float = 1.0
    ) -> None:
        self.logits = logits
        self.scale = scale
        self.num_classes = logits.shape[1]
        # Categories innermost in memory, as in (N, C) and channels-last, are rows; else (N, C, M). Neither is copied.
        self.is_rows = logits.dim() == 2 or logits.movedim(1, -1).is_contiguous()
        self.flat = self.flatten(logits.detach())
        self.sample_dims = (0,) if self.is_rows else (0, 2)
        self.dtype = torch.promote_types(logits.dtype, torch.float32)
        self.margin = None if margin is None else self.vector(margin).to(self.dtype)
        self.divisor = divisor
        self.loss = self.flat.new_zeros((), dtype=torch.float64)
        one = torch.ones_like(self.loss)
        self.safe_divisor = one if divisor is None else torch.where(divisor > 0, divisor, one)  # no sample: 0 / 1
        self.positive = self.flat.new_zeros(self.num_classes, dtype=torch.float64)
        self.negative = torch.zeros_like(self.positive)
        self._scratch: list[Tensor] = []
        needed = torch.is_grad_enabled() and logits.requires_grad
        self.gradient = torch.empty_like(self.flat, memory_format=torch.contiguous_format) if needed else None
        # A half-precision gradient is stored undivided: 1/N of it may be below the smallest float16.
        self.stored_divisor = self.safe_divisor if logits.dtype == self.dtype else one

    def flatten(self, values: Tensor) -> Tensor:
        """Logits, or what has their shape, as (N, C) or (N, C, M); labels accordingly as (N,) or (N, M)."""
        if self.logits.dim() == 2:
            return values
        if values.dim() == self.logits.dim():
            return values.movedim(1, -1).reshape(-1, self.num_classes) if self.is_rows else values.flatten(2)
        return values.reshape(-1) if self.is_rows else values.flatten(1)

    def vector(self, value: PerCategory) -> Tensor:
        """One number per category, float64, in a shape that broadcasts against a block."""
        vector = torch.as_tensor(value, dtype=torch.float64, device=self.flat.device).detach().expand(self.num_classes)
        return vector.view(1, -1) if self.is_rows else vector.view(1, -1, 1)

    def blocks(self, temporaries: int) -> Iterator[Block]:
        """Cut the samples into blocks, for a pass that holds this many block-sized temporaries."""
        share = MAX_BLOCK_ELEMENTS if temporaries == 0 else int(self.flat.numel() * TEMPORARY_SHARE / temporaries)
        size = min(MAX_BLOCK_ELEMENTS, max(MIN_BLOCK_ELEMENTS, share))
        return self.cut(max(1, size // self.num_classes))

    def cut(self, size: int) -> Iterator[Block]:
        """Cut the samples into blocks of about this many."""
        num_samples, num_places = self.flat.shape[0], 1 if self.is_rows else self.flat.shape[2]
        rows = max(1, size // (num_places or 1))
        places = num_places if rows > 1 else size
        for row in range(0, num_samples, rows):
            if self.is_rows:
                yield (slice(row, row + rows),)
                continue
            for place in range(0, num_places, places):
                yield slice(row, row + rows), slice(place, place + places)

    def read(self, block: Block) -> Tensor:
        """Logits of the block, at least float32."""
        return entries(self.flat, block).to(self.dtype)

    def read_shifted(self, block: Block, out: Tensor | None = None) -> Tensor:
        """s z + m of the block."""
        logits = self.read(block)
        if self.margin is None:
            return logits
        if self.scale == 1:
            return torch.add(logits, self.margin, out=out)  # a tenth faster than with a factor
        return torch.add(self.margin, logits, alpha=self.scale, out=out)

    def workspace(self, block: Block) -> Tensor:
        """Room for the arithmetic of a block: that of its gradient where precise enough, so that none is allocated."""
        if self.gradient is not None and self.gradient.dtype == self.dtype:
            return entries(self.gradient, block)
        return torch.empty_like(entries(self.flat, block), dtype=self.dtype)

    def scratch(self, block: Block, count: int) -> list[Tensor]:
        """More room of the block's shape, the same for every block: a pass that asked for so many temporaries."""
        shape = entries(self.flat, block).shape
        size = shape.numel()
        if len(self._scratch) < count or (count and self._scratch[0].numel() < size):
            self._scratch = [torch.empty(size, dtype=self.dtype, device=self.flat.device) for _ in range(count)]
        return [room[:size].view(shape) for room in self._scratch[:count]]

    def sum_samples(self, values: Tensor) -> Tensor:
        """Sum a block over its samples, (C,)."""
        return values.sum(self.sample_dims)

    def add_positive(self, index: Tensor, magnitude: Tensor) -> None:
        """Add |gradient| of the labelled entries, (R, 1, ...) each, to their categories."""
        self.positive.index_add_(0, index.flatten(), magnitude.flatten())

    def store(self, block: Block, gradient: Tensor) -> None:
        """Keep a block's gradient for backward, unless it was formed in its place."""
        if self.gradient is not None:
            target = entries(self.gradient, block)
            if target.data_ptr() != gradient.data_ptr():
                target.copy_(gradient)

    def result(self) -> tuple[Tensor, GradientSums]:
        """The loss, differentiable by the logits, and the gradient sums of its undivided form."""
        loss = _ClosedForm.apply(self.logits, self)
        if self.scale != 1:
            self.positive *= self.scale
            self.negative *= self.scale
        return loss, GradientSums(self.positive, self.negative, self.divisor)


def entries(flat: Tensor, block: Block) -> Tensor:
    """The block of (N, C) or (N, C, M)."""
    return flat[(block[0], slice(None), *block[1:])]


class BlockLabels:
    """The labels of a block, and what they say of its labelled entries.

    Args:
        labels: (R,) or (R, M).
    """

    def __init__(self, labels: Tensor) -> None:
        self.label = labels.unsqueeze(1)
        # Asking spares passes on the CPU; on a GPU the answer would cost a synchronisation.
        lowest = int(labels.min()) if labels.device.type == "cpu" else IGNORE
        self.all_have_category = lowest >= 0
        self.index = self.label if self.all_have_category else self.label.clamp(min=0)
        self.is_ignored = self.label == IGNORE if lowest == IGNORE else None

    @property
    def has_category(self) -> Tensor:
        """Which samples are neither background nor ignored, (R, 1, ...)."""
        return self.label >= 0

    def of_own(self, values: Tensor) -> Tensor:
        """Values of the labelled entries, (R, 1, ...), and 0 for a sample without category."""
        return values if self.all_have_category else values.masked_fill(~self.has_category, 0.0)

    def put(self, values: Tensor, own: Tensor) -> None:
        """Write the labelled entries of a block."""
        own = own.to(values.dtype)
        if not self.all_have_category:
            own = torch.where(self.has_category, own, values.gather(1, self.index))
        values.scatter_(1, self.index, own)

    def clear(self, values: Tensor) -> None:
        """Set the labelled entries of a block to 0, and all entries of ignored samples."""
        if self.all_have_category:
            values.scatter_(1, self.index, 0.0)
        else:
            self.put(values, torch.zeros_like(self.index))
        if self.is_ignored is not None:
            values.masked_fill_(self.is_ignored, 0.0)


class _ClosedForm(torch.autograd.Function):
    """A loss whose gradient is known already: backward only scales it."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, sweep: Sweep) -> Tensor:
        if sweep.gradient is not None:
            is_divided = sweep.stored_divisor is sweep.safe_divisor
            ctx.save_for_backward(sweep.gradient, None if is_divided else sweep.safe_divisor)
            ctx.shape, ctx.is_rows, ctx.scale = logits.shape, sweep.is_rows, sweep.scale
        return (sweep.loss / sweep.safe_divisor).to(sweep.dtype)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        gradient, divisor = ctx.saved_tensors
        with torch.no_grad():
            if _graph_is_kept():
                gradient = gradient.clone()
            factor = upstream if ctx.scale == 1 else upstream * ctx.scale
            _scale_(gradient, factor if divisor is None else factor / divisor)
        if torch.is_grad_enabled():
            gradient = _FirstOrderOnly.apply(gradient, torch.ones((), requires_grad=True))
        num_samples, num_classes, *places = ctx.shape
        if places and ctx.is_rows:
            gradient = gradient.view(num_samples, *places, num_classes).movedim(-1, 1)
        elif places:
            gradient = gradient.view(ctx.shape)
        return gradient, None


class _FirstOrderOnly(torch.autograd.Function):
    """Refuses a second derivative aloud: without it, a penalty on the gradient would silently train nothing."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, anchor: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        raise RuntimeError(
            "the losses of equigrad cannot be differentiated twice: their gradient is a closed form without a graph"
        )


def _graph_is_kept() -> bool:
    """Whether this backward may be run again (retain_graph), so that the saved gradient must stay as it is."""
    keep_graph = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", None)
    return keep_graph is None or keep_graph()


def _scale_(gradient: Tensor, factor: Tensor) -> None:
    """gradient *= factor, in place: a second logits-sized tensor would double the memory of the loss."""
    if factor.device.type == "cpu" and factor.item() == 1:
        return
    if gradient.dtype in (torch.float16, torch.bfloat16):
        # In float32, block by block: a loss scale of 65536 is infinite in float16.
        for part in torch.split(gradient.view(-1), MAX_BLOCK_ELEMENTS):
            part.copy_(part.float().mul_(factor))
    else:
        gradient.mul_(factor)
