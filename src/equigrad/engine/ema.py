"""A running average of the weights, which often evaluates better than the weights themselves.

`torch.optim.swa_utils.AveragedModel` would average the gradient statistics with the other buffers, or leave all buffers
alone, and copies the weights at its first update, which the published average does not.
"""

import copy
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from equigrad.statistics import find_statistics


@dataclass(frozen=True)
class Ema:
    """Exponential moving average of the weights.

    Args:
        decay: share of the average that each update keeps, in the long run.
        ramp: the decay of update t is `decay * (1 - exp(-t / ramp))`, so that early
            weights lose their influence quickly.
    """

    decay: float = 0.9998
    ramp: float = 2000.0

    def decay_at(self, update: int) -> float:
        """Decay of an update, counted from 1."""
        return self.decay * (1 - math.exp(-update / self.ramp))


class AveragedModel:
    """A copy of the model whose weights follow the model's slowly.

    Gradient statistics and buffers that are not floats are copied, not averaged.
    """

    def __init__(self, model: nn.Module, settings: Ema) -> None:
        self.settings = settings
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.updates = 0
        self._statistics = statistics_buffers(model)

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Move towards the model's weights."""
        self.updates += 1
        averages: list[Tensor] = list(self.model.parameters())
        currents: list[Tensor] = list(model.parameters())
        for (name, average), (_, current) in zip(self.model.named_buffers(), model.named_buffers(), strict=True):
            if name in self._statistics or not average.is_floating_point():
                average.copy_(current)
            else:
                averages.append(average)
                currents.append(current)
        torch._foreach_lerp_(averages, currents, 1 - self.settings.decay_at(self.updates))

    def state_dict(self) -> dict[str, Any]:
        """Weights and number of updates."""
        return {"model": self.model.state_dict(), "updates": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        self.model.load_state_dict(state["model"])
        self.updates = state["updates"]


def statistics_buffers(model: nn.Module) -> set[str]:
    """Names of the buffers that belong to gradient statistics."""
    return {name for path, part in find_statistics(model).items() for name, _ in part.named_buffers(prefix=path)}
