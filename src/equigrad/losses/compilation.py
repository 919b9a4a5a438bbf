"""Losses inside a model that is handed to `torch.compile`."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_eager_forms: dict[Callable[..., object], Callable[..., object]] = {}


def outside_graphs(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Break the graph around a function and run it as it is: a compiler would unroll its blocks and repeat its updates.

    `torch.compiler.disable` as a decorator would do the same, but it imports the compiler, which takes longer than
    importing torch. It is called when a compiler is at work anyway, and once, so that the graphs stay valid.
    """

    @wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        if torch.compiler.is_compiling():
            if function not in _eager_forms:
                _eager_forms[function] = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
            return _eager_forms[function](*args, **kwargs)  # type: ignore[return-value]
        return function(*args, **kwargs)

    return call
