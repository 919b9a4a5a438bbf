"""A pass over the logits in blocks, which forms loss, closed-form gradient and gradient sums together.

The gradient is the only logits-sized tensor that is allocated, and all that is kept for backward. `functional` sets up
a pass; `sigmoid_pass`, `softmax_pass` and `density_ratio` do its arithmetic, on slices of plain tensors.
"""

import math
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from equigrad.losses.inputs import PerCategory
from equigrad.losses.kernel_choice import Kernels, is_transformed, kernels_for

MAX_BLOCK_ELEMENTS = 2**21
"""8 MB of float32: what one operation on a block writes is still in cache for the next."""

MIN_BLOCK_ELEMENTS = 2**18
"""1 MB of float32: smaller blocks cost more in calls, and in threads that wait, than they save in memory. Logits of
twice as many are not cut either."""

MAX_DEVICE_BLOCKS = 4
"""On a device every operation costs a launch: few blocks, and temporaries of a quarter of the logits."""

TEMPORARY_SHARE = 1 / 24
"""Of the logits: what the temporaries of a block may take together where the bounds above allow it."""

LOG2_E = math.log2(math.e)
"""exp(x) = 2^(x log2 e): on a CPU `exp2` is up to three times as fast as `exp`. A factor that is there takes it in."""


class Block(NamedTuple):
    """The samples of one block, as an index of labels (N,) or (N, M) and one of logits (N, C) or (N, C, M)."""

    samples: tuple[slice, ...]
    entries: tuple[slice, ...]


class GradientSums(NamedTuple):
    """What `GradientStatistics.update` takes: sums over the samples of |d summed loss / d logit|, (C,) float64 each."""

    positive: Tensor
    negative: Tensor
    divisor: Tensor | float | None  # what the loss divides its sum by


class DeviceSums(GradientSums):
    """Those of a GPU kernel, which has them in one tensor as well."""

    record: Tensor  # (2C + 1,)  the last is NaN if a sum is not finite


class BlockwisePass:
    """The totals of one pass over logits (N, C, ...): loss, gradient and gradient sums.

    Args:
        logits: z, (N, C, ...).
        divisor: what the sum is divided by; None if it is not divided.
        margin: m_j, for a loss of s z + m.
        scale: s. The arithmetic differentiates by s z + m; backward and `gradient_sums` multiply by s.
        kernels: from `kernels_for`; a device gets few large blocks.
        wide_gradient: hold a gradient of half precision as float32 until backward: for a loss whose undivided gradient
            may be too large for float16, while parts of it, divided, are too small.
    """

    def __init__(
        self,
        logits: Tensor,
        divisor: Tensor | float | None,
        margin: PerCategory | None = None,
        scale: float = 1.0,
        *,
        kernels: Kernels = "blocks",
        wide_gradient: bool = False,
    ) -> None:
        self.logits = logits
        self.num_classes = logits.shape[1]
        # Categories innermost in memory, as in (N, C) and channels-last, are rows; else (N, C, M). Neither is copied.
        self.is_rows = logits.dim() == 2 or logits.movedim(1, -1).is_contiguous()
        self.sample_dims = (0,) if self.is_rows else (0, 2)
        flat = logits.detach()
        if logits.dim() > 2:
            flat = flat.movedim(1, -1).reshape(-1, self.num_classes) if self.is_rows else flat.flatten(2)
        self.flat = flat
        self.dtype = torch.promote_types(logits.dtype, torch.float32)
        self.is_cpu = logits.device.type == "cpu"
        self.kernels = kernels
        self.scale = scale
        if margin is None and scale != 1:
            margin = 0.0  # without a margin nothing is scaled either
        self.margin = None if margin is None else self.vector(margin)
        self.loss: Tensor | float = 0.0  # float64
        self.positive = flat.new_zeros(self.num_classes, dtype=torch.float64)
        self.negative: Tensor | None = None  # until the first block
        self.divisor = divisor
        # No sample: 0 / 1. Numbers on a CPU, where operations with them are cheaper than with tensors.
        self.safe_divisor: Tensor | float
        if isinstance(divisor, Tensor) and not self.is_cpu:
            self.safe_divisor = torch.where(divisor > 0, divisor, 1.0)
        else:
            number = 1.0 if divisor is None else float(divisor)
            self.safe_divisor = number if number > 0 else 1.0
        # A half-precision gradient is stored undivided: 1/N of it may be below the smallest float16.
        is_precise = wide_gradient or logits.dtype == self.dtype
        self.stored_divisor = self.safe_divisor if is_precise else 1.0
        self.gradient: Tensor | None = None
        self.graph_anchor: Tensor | None = None
        if torch.is_grad_enabled() and logits.requires_grad:
            dtype = self.dtype if wide_gradient else flat.dtype
            self.gradient = torch.empty_like(flat, dtype=dtype, memory_format=torch.contiguous_format)
            self.graph_anchor = logits.narrow_copy(0, 0, 0)  # a view would hold the memory of the logits
        # The arithmetic of a block uses the memory of its gradient where that is precise enough.
        self.workspace = self.gradient if is_precise else None

    def flatten(self, values: Tensor) -> Tensor:
        """What has the logits' shape as (N, C) or (N, C, M); what has the labels' shape as (N,) or (N, M)."""
        if self.logits.dim() == 2:
            return values
        if values.dim() == self.logits.dim():
            return values.movedim(1, -1).reshape(-1, self.num_classes) if self.is_rows else values.flatten(2)
        return values.reshape(-1) if self.is_rows else values.flatten(1)

    def vector(self, value: PerCategory) -> Tensor:
        """One number for each category, float64, in a shape that broadcasts against a block."""
        if isinstance(value, Tensor):
            vector = value.detach() if value.requires_grad else value
            vector = vector.to(self.flat.device, torch.float64)
            vector = vector if vector.dim() else vector.expand(self.num_classes)
        else:  # filled on the device: to copy a number there, the host would wait
            vector = torch.full((self.num_classes,), value, dtype=torch.float64, device=self.flat.device)
        return vector if self.is_rows else vector.view(1, -1, 1)

    def blocks(self, num_temporaries: int = 0, *, num_samples: int | None = None) -> list[Block]:
        """Cut the samples into blocks.

        Args:
            num_temporaries: block-sized tensors that the arithmetic holds beside the gradient; they bound the size.
            num_samples: about how many samples a block has, if the size is not to follow from the temporaries.
        """
        if num_samples is None:
            num_elements = MAX_BLOCK_ELEMENTS
            if num_temporaries > 0:
                share = int(self.flat.numel() * TEMPORARY_SHARE / num_temporaries)
                num_elements = min(MAX_BLOCK_ELEMENTS, max(MIN_BLOCK_ELEMENTS, share))
                if self.flat.numel() <= 2 * MIN_BLOCK_ELEMENTS:
                    num_elements = min(MAX_BLOCK_ELEMENTS, 2 * MIN_BLOCK_ELEMENTS)
            num_samples = max(1, num_elements // self.num_classes)
        if self.kernels != "blocks":  # a device, also where a loss has no Triton kernel
            total = self.flat.numel() // self.num_classes
            num_samples = max(num_samples, -(-total // MAX_DEVICE_BLOCKS))
        everything = slice(None)
        blocks = []
        if self.is_rows:
            for row in range(0, self.flat.shape[0], num_samples):
                rows = slice(row, row + num_samples)
                blocks.append(Block((rows,), (rows, everything)))
            return blocks
        num_positions = self.flat.shape[2]
        num_rows = max(1, num_samples // max(1, num_positions))
        width = max(1, num_positions) if num_rows > 1 else num_samples
        for row in range(0, self.flat.shape[0], num_rows):
            rows = slice(row, row + num_rows)
            for start in range(0, num_positions, width):
                positions = slice(start, start + width)
                blocks.append(Block((rows, positions), (rows, everything, positions)))
        return blocks

    def gradient_sums(self) -> GradientSums:
        """Gradient sums of the undivided loss."""
        positive, negative = self.positive, self.negative
        if negative is None:
            negative = torch.zeros_like(positive)
        if self.scale != 1:
            positive, negative = positive * self.scale, negative * self.scale
        return GradientSums(positive, negative, self.divisor)


class ClosedForm(torch.autograd.Function):
    """The loss of a pass that is done, differentiable by the logits: backward only scales the gradient.

    The gradient stands on the context, not among the saved tensors: `torch.utils.checkpoint` would replace those by the
    ones of a second pass, when the statistics have moved and the weights with them.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, run: Any) -> Tensor:
        """The loss, divided, of a `BlockwisePass` or a `DeviceRun`."""
        if run.gradient is not None:
            ctx.gradient, ctx.divisor, ctx.graph_anchor = (
                run.gradient,
                None if run.stored_divisor is run.safe_divisor else run.safe_divisor,
                run.graph_anchor,
            )
            ctx.shape, ctx.dtype, ctx.is_rows, ctx.scale = logits.shape, logits.dtype, run.is_rows, run.scale
        if not isinstance(run, BlockwisePass):
            value: Tensor = run.value
            return value
        divided = (float(run.loss) if run.is_cpu else run.loss) / run.safe_divisor
        if isinstance(divided, Tensor):
            return divided.to(run.dtype)
        return torch.full((), divided, dtype=run.dtype, device=logits.device)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient by the logits, times `upstream`."""
        gradient, upstream = take_gradient(ctx), upstream.detach() if upstream.requires_grad else upstream
        _scale_(gradient, upstream if ctx.scale == 1 else upstream * ctx.scale, ctx.divisor)
        if gradient.dtype != ctx.dtype:
            gradient = gradient.to(ctx.dtype)
        if torch.is_grad_enabled():
            gradient = FirstDerivativeOnly.apply(gradient, ctx.graph_anchor)
        return _in_logits_shape(gradient, ctx), None


class TransformedClosedForm(ClosedForm):
    """The same for `torch.func`, which asks for two methods; elsewhere they cost 30 microseconds a call."""

    @staticmethod
    def forward(logits: Tensor, run: Any) -> Tensor:  # type: ignore[override]
        """The loss, divided."""
        return ClosedForm.forward(SimpleNamespace(), logits, run)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keep what backward needs."""
        ClosedForm.forward(ctx, *inputs)


def closed_form() -> type[ClosedForm]:
    """The one to apply here."""
    return TransformedClosedForm if is_transformed() else ClosedForm


class FirstDerivativeOnly(torch.autograd.Function):
    """Raises at a second derivative: without it, a penalty on the gradient would silently train nothing.

    Its second input is an empty tensor that depends on the logits but holds none of their memory. Without it autograd
    would find no path from the gradient to the logits and return None instead of asking.
    """

    @staticmethod
    def forward(gradient: Tensor, graph_anchor: Tensor) -> Tensor:
        """The gradient as it is."""
        return gradient.view_as(gradient)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Nothing to keep; `torch.func` asks for this method."""

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Refuse the second derivative."""
        raise RuntimeError(
            "the fused losses of equigrad cannot be differentiated twice: their gradient is a closed form without a "
            'graph. Use reduction="none" or a formula of equigrad.losses.reference, which are ordinary autograd'
        )


def lies_in_rows(logits: Tensor) -> bool:
    """Whether categories are innermost in memory, as in (N, C) and in channels-last."""
    return logits.dim() == 2 or logits.movedim(1, -1).is_contiguous()


def held_gradient(loss: Tensor) -> Tensor:
    """The gradient that a fused loss holds for its backward, in the logits' shape; undivided in half precision."""
    node: Any = loss.grad_fn
    return _in_logits_shape(node.gradient if node.scale == 1 else node.gradient * node.scale, node)


def _in_logits_shape(gradient: Tensor, ctx: Any) -> Tensor:
    if gradient.shape == ctx.shape:
        return gradient
    num_samples, num_classes, *positions = ctx.shape
    if ctx.is_rows:
        return gradient.view(num_samples, *positions, num_classes).movedim(-1, 1)
    return gradient.view(ctx.shape)


def take_gradient(ctx: Any) -> Tensor:
    """The gradient on a context, to be changed in place: a copy if this backward may be run again (retain_graph)."""
    gradient: Tensor | None = ctx.gradient
    if gradient is None:
        raise RuntimeError(
            "backward through a loss of equigrad a second time: its gradient was handed out and changed in place. Pass "
            "retain_graph=True to the first backward"
        )
    keep_graph = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", None)
    if keep_graph is None or keep_graph():
        return gradient.clone()
    ctx.gradient = None  # the graph may live on, as `loss` does until the next step
    return gradient


def _scale_(gradient: Tensor, factor: Tensor, divisor: Tensor | float | None) -> None:
    """gradient *= factor / divisor, in place: a second logits-sized tensor would double the memory of the loss."""
    if isinstance(divisor, Tensor) and kernels_for(gradient.device) == "triton":
        from equigrad.losses.kernels import backward, launch

        launch.run(backward.scale_gradient(gradient, factor, divisor, out=gradient))
        return
    if divisor is not None:
        factor = factor / divisor
    if factor.device.type == "cpu" and factor.item() == 1:
        return
    if gradient.dtype in (torch.float16, torch.bfloat16):
        # In float32, block by block: a loss scale of 65536 is infinite in float16.
        for part in torch.split(gradient.view(-1), MAX_BLOCK_ELEMENTS):
            part.copy_(part.float().mul_(factor))
    else:
        gradient.mul_(factor)
