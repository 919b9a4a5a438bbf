"""Losses inside a model that is handed to `torch.compile`."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_disabled: dict[Callable[..., object], Callable[..., object]] = {}


def disable_compile(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The function itself or, while a compiler traces the caller, a form of it that breaks the graph and runs as it is.

    A compiler would unroll the blocks of a loss and repeat its updates. Use it where the function is called:

        loss, gradient_sums = disable_compile(functional.cross_entropy)(logits, labels)

    `torch.compiler.disable` as a decorator would do the same, but it imports the compiler, which takes longer than
    importing torch, and puts a frame of its own above every call.
    """
    if not torch.compiler.is_compiling():
        return function
    if function not in _disabled:  # the same object every time, so that compiled graphs stay valid
        _disabled[function] = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
    return _disabled[function]  # type: ignore[return-value]
