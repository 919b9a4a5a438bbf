"""The fused losses as operators of `torch.library`, which `torch.compile` keeps whole.

A compiler would unroll the blocks of a pass and break at the first look at a value. As an operator the pass is one node
of the graph: its schema and its shapes are known, its backward scales the gradient, and what it computes is the
function of `functional`, checks of values included.
"""

import re
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from equigrad.losses import functional
from equigrad.losses.blockwise import GradientSums, held_gradient, lies_in_rows
from equigrad.losses.inputs import PerCategory

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

Outputs = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""Loss, gradient, positive and negative gradient sums, divisor."""

SCHEMAS: dict[Callable[..., Any], str] = {
    functional.binary_cross_entropy: "Tensor? positive_weight=None, Tensor? negative_weight=None, "
    "float? positive_balance=None, Tensor? focus=None, Tensor? quality=None, bool soft_targets=False, "
    "bool weigh_by_quality=False, bool focus_positives=True, bool constant_weight=False, "
    "Tensor? foreground_weight=None, Tensor? weight=None, Tensor? margin=None, float scale=1.0",
    functional.cross_entropy: "Tensor? margin=None, Tensor? weight=None, Tensor? label_margin=None, float scale=1.0, "
    "float label_smoothing=0.0",
    functional.seesaw_cross_entropy: "Tensor? category_counts=None, float mitigation=0.8, float compensation=2.0, "
    "float prob_floor=0.01",
    functional.lade_cross_entropy: "Tensor? category_prior=None, float weight=0.1, float penalty=0.1",
}
"""What the functions take between labels and reduction. Numbers of the categories are tensors to an operator."""


WIDE_GRADIENTS = [functional.lade_cross_entropy]
"""Functions that hold a gradient of half precision as float32, divided."""


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


def _register(function: Callable[..., Any], own_arguments: str) -> Callable[..., tuple[Tensor, GradientSums]]:
    """Make an operator of a function; what is returned calls it as the function is called."""
    schema = (
        f"Tensor logits, Tensor labels, {own_arguments}, str reduction='mean', Tensor? normalizer=None, "
        "int ignore_index=-100, bool with_gradient=False"
    )
    names = re.findall(r"(\w+)(?:=[^,]*)?(?:,|$)", schema)
    tensor_names = frozenset(re.findall(r"Tensor\? (\w+)", schema))

    def compute(logits: Tensor, *arguments: Any, **options: Any) -> Outputs:
        options |= zip(names[1:], arguments, strict=False)
        return _compute(function, logits, **options)

    def fake(logits: Tensor, *arguments: Any, **options: Any) -> Outputs:
        options |= zip(names[1:], arguments, strict=False)
        dtype = torch.promote_types(logits.dtype, torch.float32) if function in WIDE_GRADIENTS else logits.dtype
        return _fake(logits, options.get("with_gradient", False), dtype)

    operator = torch.library.custom_op(
        f"equigrad::{function.__name__}",
        compute,
        mutates_args=(),
        schema=f"({schema}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    )
    operator.register_fake(fake)
    operator.register_autograd(_backward, setup_context=_setup_context)

    def traced(
        logits: Tensor, labels: Tensor, *vectors: PerCategory, objectness: bool = False, **options: Any
    ) -> tuple[Tensor, GradientSums]:
        assert not objectness, "WithObjectness asks for the column where the Triton kernels are called themselves"
        tensors = [_tensor(vector, logits) for vector in vectors]
        options = {name: _tensor(value, logits) if name in tensor_names else value for name, value in options.items()}
        with_gradient = torch.is_grad_enabled() and logits.requires_grad
        loss, _, positive, negative, divisor = operator(
            logits, labels, *tensors, with_gradient=with_gradient, **options
        )
        is_divided = options.get("reduction", "mean") == "mean" or options.get("normalizer") is not None
        return loss, GradientSums(positive, negative, divisor if is_divided else None)

    return traced


def _compute(function: Callable[..., Any], logits: Tensor, *, with_gradient: bool = False, **options: Any) -> Outputs:
    """The eager function, with its gradient handed out instead of kept for backward."""
    if torch._C._current_graph_task_id() != -1:
        raise RuntimeError(
            "a compiled model repeats its loss in backward, when the statistics have moved: call the loss outside "
            "torch.utils.checkpoint, on the logits that the checkpoint returns"
        )
    given = {name: value for name, value in options.items() if value is not None}
    with torch.enable_grad():
        loss, (positive, negative, divisor) = function(logits.detach().requires_grad_(with_gradient), **given)
    dtype = torch.promote_types(logits.dtype, torch.float32) if function in WIDE_GRADIENTS else logits.dtype
    gradient = held_gradient(loss) if with_gradient else logits.new_empty(0, dtype=dtype)
    # An operator must not return what it was given, as a normalizer is.
    divisor = positive.new_ones(()) * (1.0 if divisor is None else divisor)
    return loss.detach(), gradient, positive, negative, divisor


def _fake(logits: Tensor, with_gradient: bool, dtype: torch.dtype) -> Outputs:
    """Tensors of the shapes, dtypes and strides of the outputs."""
    loss = logits.new_empty((), dtype=torch.promote_types(logits.dtype, torch.float32))
    sums = logits.new_empty(logits.shape[1], dtype=torch.float64)
    gradient = logits.new_empty(0, dtype=dtype)
    if with_gradient:
        gradient = logits.new_empty(logits.shape, dtype=dtype)
        if logits.dim() > 2 and lies_in_rows(logits):
            rows = logits.movedim(1, -1)
            gradient = torch.empty_like(rows, dtype=dtype, memory_format=torch.contiguous_format).movedim(-1, 1)
    return loss, gradient, sums, torch.empty_like(sums), logits.new_empty((), dtype=torch.float64)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Outputs) -> None:
    _, gradient, positive, negative, divisor = output
    ctx.mark_non_differentiable(gradient, positive, negative, divisor)
    ctx.num_arguments = len(inputs)
    ctx.dtype = inputs[0].dtype
    ctx.save_for_backward(gradient, divisor)


def _backward(ctx: Any, upstream: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    gradient, divisor = ctx.saved_tensors
    if gradient.dtype in (torch.float16, torch.bfloat16):
        # Stored undivided, and scaled in float32: a loss scale of 65536 is infinite in float16.
        factor = upstream / torch.where(divisor > 0, divisor, 1.0).float()
        scaled = (gradient.float() * factor).to(gradient.dtype)
    else:
        scaled = (gradient * upstream).to(ctx.dtype)
    return scaled, *([None] * (ctx.num_arguments - 1))


def _tensor(value: PerCategory | None, logits: Tensor) -> Tensor | None:
    """An argument of an operator: numbers become tensors."""
    if value is None or isinstance(value, Tensor):
        return value
    return torch.full((), value, dtype=torch.float64, device=logits.device)


_TRACED: dict[Callable[..., Any], Callable[..., Any]] = {
    function: _register(function, own_arguments) for function, own_arguments in SCHEMAS.items()
}
