"""f: from gradient ratio G_j to the weight of negative samples (Sec. 4.1, table `mapping_func`)."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from torch import Tensor

Mapping = Callable[[Tensor], Tensor]
"""From gradient ratio to weight, (C,) each."""

MappingName = Literal["sigmoid", "linear", "square", "sqrt"]
"""The mappings of the paper's ablation."""


def linear(ratio: Tensor) -> Tensor:
    """f(x) = x."""
    return ratio


def square(ratio: Tensor) -> Tensor:
    """f(x) = x^2, the paper's "exp"."""
    return ratio**2


def square_root(ratio: Tensor) -> Tensor:
    """f(x) = sqrt(x)."""
    return ratio.sqrt()


def sigmoid_like(ratio: Tensor, steepness: float, midpoint: float) -> Tensor:
    """f(x) = 1 / (1 + exp(-gamma (x - mu))): gamma is the steepness, mu the midpoint."""
    return (ratio - midpoint).mul_(steepness).sigmoid_()


def name_of(mapping: Mapping) -> dict[str, Any] | None:
    """The arguments of the GPU kernel that computes a mapping; None for a mapping of the user's own."""
    if isinstance(mapping, partial) and mapping.func is sigmoid_like:
        return {"mapping": "sigmoid", **mapping.keywords}
    names = {linear: "linear", square: "square", square_root: "sqrt"}
    return {"mapping": names[mapping], "steepness": 0.0, "midpoint": 0.0} if mapping in names else None


def is_one_at_infinity(mapping: Mapping) -> bool:
    """Whether a category without negative gradient, whose ratio is infinite, is balanced by the mapping itself."""
    if isinstance(mapping, partial) and mapping.func is sigmoid_like:
        return bool(mapping.keywords["steepness"] > 0)
    return mapping in (linear, square, square_root)


def resolve(mapping: MappingName | Mapping, steepness: float, midpoint: float) -> Mapping:
    """The mapping a user asked for by name, or the callable itself."""
    # partial, not a closure: a loss must survive pickling (spawned workers, torch.save of a module).
    named: dict[str, Mapping] = {
        "sigmoid": partial(sigmoid_like, steepness=steepness, midpoint=midpoint),
        "linear": linear,
        "square": square,
        "sqrt": square_root,
    }
    if isinstance(mapping, str):
        if mapping not in named:
            raise ValueError(f"mapping must be one of {sorted(named)} or a callable, got {mapping!r}")
        return named[mapping]
    if not callable(mapping):
        raise TypeError(f"mapping must be a name or a callable from ratio to weight, got {type(mapping).__name__}")
    return mapping
