"""Optimisers and what they optimise: parameter groups by path, frozen parts.

A pattern names a part of the model by the start of its path: `"backbone.layer1"` is all of it, `"backbone.layer1.0"`
one block; `*` stands for any one component, as in `"head.*.bias"`. A pattern that matches nothing is refused, because a
typing error would otherwise silently train the wrong parameters.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from equigrad.errors import EngineError

_NORMS = (_NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm, nn.LocalResponseNorm)


@dataclass(frozen=True)
class ParameterRule:
    """Other settings for a part of the model; the last rule that matches a parameter decides.

    Args:
        pattern: start of the path; see the module.
        lr: factor of the learning rate.
        weight_decay: factor of the weight decay, on norms and biases too; None does not change it.
    """

    pattern: str
    lr: float = 1.0
    weight_decay: float | None = None


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent.

    Args:
        lr: base learning rate, at the batch size of the settings.
        momentum: momentum factor.
        nesterov: use Nesterov momentum.
        weight_decay: weight decay of all weights.
        decay_norm_and_bias: whether weight decay also applies to normalisation layers and biases.
        fused: update all parameters in one kernel: faster on a GPU, with other rounding.
        rules: other learning rates or weight decay for parts of the model.
    """

    lr: float
    momentum: float = 0.9
    nesterov: bool = False
    weight_decay: float = 0.0
    decay_norm_and_bias: bool = True
    fused: bool = False
    rules: tuple[ParameterRule, ...] = ()

    def build(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        """The optimiser of these parameter groups."""
        return torch.optim.SGD(
            groups, lr=self.lr, momentum=self.momentum, nesterov=self.nesterov, fused=self.fused or None
        )


@dataclass(frozen=True)
class AdamW:
    """Adam with decoupled weight decay.

    Args:
        lr: base learning rate, at the batch size of the settings.
        betas: decay rates of the two moments.
        eps: added to the root of the second moment.
        weight_decay: weight decay of all weights.
        decay_norm_and_bias: whether weight decay also applies to normalisation layers and biases.
        fused: update all parameters in one kernel: faster on a GPU, with other rounding.
        rules: other learning rates or weight decay for parts of the model.
    """

    lr: float
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.01
    decay_norm_and_bias: bool = True
    fused: bool = False
    rules: tuple[ParameterRule, ...] = ()

    def build(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        """The optimiser of these parameter groups."""
        return torch.optim.AdamW(groups, lr=self.lr, betas=self.betas, eps=self.eps, fused=self.fused or None)


def build_optimizer(model: nn.Module, settings: SGD | AdamW) -> torch.optim.Optimizer:
    """An optimiser over the trainable parameters, grouped by learning rate and weight decay."""
    return settings.build(parameter_groups(model, settings))


def parameter_groups(model: nn.Module, settings: SGD | AdamW) -> list[dict[str, Any]]:
    """One group for each pair of learning rate and weight decay; `base_lr` is what the schedule scales."""
    trainable = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    if not trainable:
        raise EngineError("the model has no trainable parameters: everything is frozen")
    check_patterns(model, (rule.pattern for rule in settings.rules))
    spared = set() if settings.decay_norm_and_bias else set(norms_and_biases(model))
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in trainable.items():
        groups.setdefault(_rates(name, name in spared, settings), []).append(parameter)
    return [
        {"params": parameters, "lr": lr, "base_lr": lr, "weight_decay": weight_decay}
        for (lr, weight_decay), parameters in groups.items()
    ]


def _rates(name: str, is_spared: bool, settings: SGD | AdamW) -> tuple[float, float]:
    rule = next((rule for rule in reversed(settings.rules) if matches(name, rule.pattern)), ParameterRule(""))
    decay_factor = rule.weight_decay if rule.weight_decay is not None else float(not is_spared)
    return settings.lr * rule.lr, settings.weight_decay * decay_factor


def set_learning_rate(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Scale the base learning rate of every group."""
    for group in optimizer.param_groups:
        group["lr"] = group["base_lr"] * factor


def load_optimizer_state(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Take over momenta and moments; rates and decays stay those of the settings, which the user may have changed."""
    settings = [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]
    optimizer.load_state_dict(state)
    for group, own in zip(optimizer.param_groups, settings, strict=True):
        group.update(own)


def freeze(model: nn.Module, patterns: Iterable[str]) -> list[nn.Module]:
    """Switch off the gradients of the parts; returns their modules, which belong in evaluation mode."""
    patterns = tuple(patterns)
    check_patterns(model, patterns)
    for name, parameter in model.named_parameters():
        if any(matches(name, pattern) for pattern in patterns):
            parameter.requires_grad_(False)
    return [module for name, module in model.named_modules() if any(matches(name, pattern) for pattern in patterns)]


def norms_and_biases(model: nn.Module) -> Iterator[str]:
    """Names of the parameters that many recipes spare from weight decay."""
    for path, module in model.named_modules():
        for name, _ in module.named_parameters(prefix=path, recurse=False):
            if isinstance(module, _NORMS) or name.rpartition(".")[2] == "bias":
                yield name


def matches(path: str, pattern: str) -> bool:
    """Whether a path begins with the pattern, component by component."""
    components, wanted = path.split("."), pattern.split(".")
    return len(wanted) <= len(components) and all(map(fnmatchcase, components, wanted))


def check_patterns(model: nn.Module, patterns: Iterable[str]) -> None:
    """Refuse a pattern that no parameter of the model matches."""
    names = [name for name, _ in model.named_parameters()]
    for pattern in patterns:
        if not any(matches(name, pattern) for name in names):
            parts = ", ".join(name for name, _ in model.named_children())
            raise EngineError(f"no parameter of the model matches {pattern!r}; its parts are: {parts}")
