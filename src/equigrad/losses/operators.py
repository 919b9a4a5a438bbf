"""The fused losses as operators of `torch.library`, which `torch.compile` keeps whole.

A compiler would unroll the blocks of a pass and break at the first look at a value. As an operator the pass is one node
of the graph: its schema and its shapes are known, its backward scales the gradient, and what it computes is the
function of `functional`, checks of values included.
"""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from equigrad.labels import IGNORE
from equigrad.losses import functional
from equigrad.losses.blockwise import GradientSums, held_gradient, lies_in_rows
from equigrad.losses.inputs import FusedReduction, PerCategory

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

Outputs = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""Loss, gradient, positive and negative gradient sums, divisor."""


def as_operator(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The function of `functional` itself or, while a compiler traces the caller, the operator of the same name.

    Use it where the function is called:

        loss, gradient_sums = as_operator(functional.cross_entropy)(logits, labels)
    """
    return _TRACED[function] if torch.compiler.is_compiling() else function


def held(value: Tensor) -> Tensor:
    """What was computed from state that moves in this step, for autograd formulas that need it in backward.

    A compiler may compute it again there, from the state that has moved by then. It does not repeat an operator.
    """
    return _copy(value) if torch.compiler.is_compiling() else value


@torch.library.custom_op("equigrad::copy", mutates_args=())
def _copy(value: Tensor) -> Tensor:
    return value.clone()


@_copy.register_fake
def _(value: Tensor) -> Tensor:
    return torch.empty_like(value)


@torch.library.custom_op("equigrad::binary_cross_entropy", mutates_args=())
def _binary_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    positive_weight: Tensor,
    negative_weight: Tensor,
    positive_balance: float | None,
    focus: Tensor | None,
    quality: Tensor | None,
    foreground_weight: Tensor | None,
    weight: Tensor | None,
    margin: Tensor | None,
    scale: float,
    reduction: str,
    normalizer: Tensor | None,
    ignore_index: int,
    with_gradient: bool,
) -> Outputs:
    return _run(
        functional.binary_cross_entropy,
        logits,
        with_gradient,
        labels,
        positive_weight,
        negative_weight,
        positive_balance=positive_balance,
        focus=focus,
        quality=quality,
        foreground_weight=foreground_weight,
        weight=weight,
        margin=margin,
        scale=scale,
        reduction=reduction,
        normalizer=normalizer,
        ignore_index=ignore_index,
    )


def binary_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    positive_weight: PerCategory = 1.0,
    negative_weight: PerCategory = 1.0,
    *,
    positive_balance: float | None = None,
    focus: PerCategory | None = None,
    quality: Tensor | None = None,
    foreground_weight: PerCategory | None = None,
    weight: PerCategory | None = None,
    margin: PerCategory | None = None,
    scale: float = 1.0,
    reduction: FusedReduction = "mean",
    normalizer: float | Tensor | None = None,
    ignore_index: int = IGNORE,
) -> tuple[Tensor, GradientSums]:
    """`functional.binary_cross_entropy` as an operator."""
    outputs = _binary_cross_entropy(
        logits,
        labels,
        _tensor(positive_weight, logits),
        _tensor(negative_weight, logits),
        positive_balance,
        *(_tensor(vector, logits) for vector in (focus, quality, foreground_weight, weight, margin)),
        scale,
        reduction,
        _tensor(normalizer, logits),
        ignore_index,
        _wants_gradient(logits),
    )
    return _loss_and_sums(outputs, is_divided=reduction == "mean" or normalizer is not None)


@torch.library.custom_op("equigrad::cross_entropy", mutates_args=())
def _cross_entropy(
    logits: Tensor,
    labels: Tensor,
    margin: Tensor,
    weight: Tensor | None,
    label_margin: Tensor | None,
    scale: float,
    label_smoothing: float,
    reduction: str,
    normalizer: Tensor | None,
    ignore_index: int,
    with_gradient: bool,
) -> Outputs:
    return _run(
        functional.cross_entropy,
        logits,
        with_gradient,
        labels,
        margin,
        weight=weight,
        label_margin=label_margin,
        scale=scale,
        label_smoothing=label_smoothing,
        reduction=reduction,
        normalizer=normalizer,
        ignore_index=ignore_index,
    )


def cross_entropy(
    logits: Tensor,
    labels: Tensor,
    margin: PerCategory = 0.0,
    *,
    weight: PerCategory | None = None,
    label_margin: PerCategory | None = None,
    scale: float = 1.0,
    label_smoothing: float = 0.0,
    reduction: FusedReduction = "mean",
    normalizer: float | Tensor | None = None,
    ignore_index: int = IGNORE,
) -> tuple[Tensor, GradientSums]:
    """`functional.cross_entropy` as an operator."""
    outputs = _cross_entropy(
        logits,
        labels,
        *(_tensor(vector, logits) for vector in (margin, weight, label_margin)),
        scale,
        label_smoothing,
        reduction,
        _tensor(normalizer, logits),
        ignore_index,
        _wants_gradient(logits),
    )
    return _loss_and_sums(outputs, is_divided=reduction == "mean" or normalizer is not None)


@torch.library.custom_op("equigrad::seesaw_cross_entropy", mutates_args=())
def _seesaw_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    category_counts: Tensor,
    mitigation: float,
    compensation: float,
    prob_floor: float,
    reduction: str,
    normalizer: Tensor | None,
    ignore_index: int,
    with_gradient: bool,
) -> Outputs:
    return _run(
        functional.seesaw_cross_entropy,
        logits,
        with_gradient,
        labels,
        category_counts,
        mitigation=mitigation,
        compensation=compensation,
        prob_floor=prob_floor,
        reduction=reduction,
        normalizer=normalizer,
        ignore_index=ignore_index,
    )


def seesaw_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    category_counts: Tensor,
    *,
    mitigation: float = 0.8,
    compensation: float = 2.0,
    prob_floor: float = 0.01,
    reduction: FusedReduction = "mean",
    normalizer: float | Tensor | None = None,
    ignore_index: int = IGNORE,
) -> tuple[Tensor, GradientSums]:
    """`functional.seesaw_cross_entropy` as an operator."""
    options = (mitigation, compensation, prob_floor, reduction, _tensor(normalizer, logits), ignore_index)
    outputs = _seesaw_cross_entropy(logits, labels, category_counts, *options, _wants_gradient(logits))
    return _loss_and_sums(outputs, is_divided=reduction == "mean" or normalizer is not None)


@torch.library.custom_op("equigrad::lade_cross_entropy", mutates_args=())
def _lade_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    category_prior: Tensor,
    weight: float,
    penalty: float,
    reduction: str,
    normalizer: Tensor | None,
    ignore_index: int,
    with_gradient: bool,
) -> Outputs:
    return _run(
        functional.lade_cross_entropy,
        logits,
        with_gradient,
        labels,
        category_prior,
        weight=weight,
        penalty=penalty,
        reduction=reduction,
        normalizer=normalizer,
        ignore_index=ignore_index,
    )


def lade_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    category_prior: Tensor,
    *,
    weight: float = 0.1,
    penalty: float = 0.1,
    reduction: FusedReduction = "mean",
    normalizer: float | Tensor | None = None,
    ignore_index: int = IGNORE,
) -> tuple[Tensor, GradientSums]:
    """`functional.lade_cross_entropy` as an operator."""
    options = (weight, penalty, reduction, _tensor(normalizer, logits), ignore_index)
    outputs = _lade_cross_entropy(logits, labels, category_prior, *options, _wants_gradient(logits))
    return _loss_and_sums(outputs, is_divided=reduction == "mean" or normalizer is not None)


_TRACED: dict[Callable[..., Any], Callable[..., Any]] = {
    functional.binary_cross_entropy: binary_cross_entropy,
    functional.cross_entropy: cross_entropy,
    functional.seesaw_cross_entropy: seesaw_cross_entropy,
    functional.lade_cross_entropy: lade_cross_entropy,
}


def _run(
    function: Callable[..., tuple[Tensor, GradientSums]],
    logits: Tensor,
    with_gradient: bool,
    *arguments: Any,
    **options: Any,
) -> Outputs:
    """What an operator computes: the eager function, with its gradient handed out instead of kept for backward."""
    if torch._C._current_graph_task_id() != -1:
        raise RuntimeError(
            "a compiled model repeats its loss in backward, when the statistics have moved: call the loss outside "
            "torch.utils.checkpoint, on the logits that the checkpoint returns"
        )
    with torch.enable_grad():
        loss, (positive, negative, divisor) = function(
            logits.detach().requires_grad_(with_gradient), *arguments, **options
        )
    gradient = held_gradient(loss) if with_gradient else logits.new_empty(0)
    # An operator must not return what it was given, as a normalizer is.
    divisor = torch.ones_like(positive[0]) if divisor is None else divisor.clone()
    return loss.detach(), gradient, positive, negative, divisor


def _fake(logits: Tensor, *arguments: Any, with_gradient: bool) -> Outputs:
    """Tensors of the shapes, dtypes and strides of the outputs."""
    loss = logits.new_empty((), dtype=torch.promote_types(logits.dtype, torch.float32))
    sums = logits.new_empty(logits.shape[1], dtype=torch.float64)
    gradient = logits.new_empty(0)
    if with_gradient:
        gradient = logits.new_empty(logits.shape)
        if logits.dim() > 2 and lies_in_rows(logits):
            gradient = torch.empty_like(logits.movedim(1, -1), memory_format=torch.contiguous_format).movedim(-1, 1)
    return loss, gradient, sums, torch.empty_like(sums), logits.new_empty((), dtype=torch.float64)


def _register(operator: Any) -> None:
    """Shapes for the compiler, and a backward that scales the gradient."""

    def fake(logits: Tensor, *arguments: Any) -> Outputs:
        return _fake(logits, with_gradient=arguments[-1])

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Outputs) -> None:
        _, gradient, positive, negative, divisor = output
        ctx.mark_non_differentiable(gradient, positive, negative, divisor)
        ctx.num_arguments = len(inputs)
        ctx.is_half = inputs[0].dtype in (torch.float16, torch.bfloat16)
        ctx.save_for_backward(gradient, divisor)

    def backward(ctx: Any, upstream: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        gradient, divisor = ctx.saved_tensors
        if ctx.is_half:
            # Stored undivided, and scaled in float32: a loss scale of 65536 is infinite in float16.
            factor = upstream / torch.where(divisor > 0, divisor, 1.0).float()
            scaled = (gradient.float() * factor).to(gradient.dtype)
        else:
            scaled = gradient * upstream
        return scaled, *([None] * (ctx.num_arguments - 1))

    operator.register_fake(fake)
    operator.register_autograd(backward, setup_context=setup_context)


for _operator in (_binary_cross_entropy, _cross_entropy, _seesaw_cross_entropy, _lade_cross_entropy):
    _register(_operator)


def _wants_gradient(logits: Tensor) -> bool:
    return torch.is_grad_enabled() and logits.requires_grad


def _tensor(value: PerCategory | None, logits: Tensor) -> Tensor | None:
    """An argument of an operator: numbers become tensors."""
    if value is None or isinstance(value, Tensor):
        return value
    return torch.full((), value, dtype=torch.float64, device=logits.device)


def _loss_and_sums(outputs: Outputs, *, is_divided: bool) -> tuple[Tensor, GradientSums]:
    loss, _, positive, negative, divisor = outputs
    return loss, GradientSums(positive, negative, divisor if is_divided else None)
