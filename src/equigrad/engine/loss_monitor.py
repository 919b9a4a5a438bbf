"""The losses since the last line of the log: their means, and an error message when one is not finite."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

_MAX_NAMES = 32


class _Record(NamedTuple):
    step: int
    losses: dict[str, Tensor]
    samples: list[int]


class LossMonitor:
    """Collects losses as tensors; reading their values at once would make the host wait for an accelerator."""

    def __init__(self) -> None:
        self.sums: dict[str, Tensor] = {}
        self.count = 0
        self._unchecked: list[_Record] = []

    def add(self, step: int, losses: dict[str, Tensor], samples: list[int]) -> None:
        """The losses of one batch, and the samples it holds."""
        for name, loss in losses.items():
            self.sums[name] = self.sums[name] + loss if name in self.sums else loss.float()
        self.count += 1
        self._unchecked.append(_Record(step, losses, samples))

    def alarm(self, sample_name: Callable[[int], str]) -> str | None:
        """Step, loss and samples of the first batch since the last call that had a loss which is not finite."""
        records, self._unchecked = self._unchecked, []
        # A sum with a nan or an infinity in it is not finite, so one value is read instead of all.
        total = torch.stack([loss.float() for record in records for loss in record.losses.values()]).sum()
        if math.isfinite(total.item()):
            return None
        for step, losses, samples in records:
            broken = [f"{name} is {loss.item()}" for name, loss in losses.items() if not loss.isfinite()]
            if broken:
                return f"loss {', '.join(broken)} at step {step}; batch: {_names(samples, sample_name)}"
        return None  # all terms are finite, only their sum is too large for a float

    def means(self) -> dict[str, float]:
        """Mean of every loss since the last call."""
        means = self.means_so_far()
        self.sums, self.count = {}, 0
        return means

    def means_so_far(self) -> dict[str, float]:
        """Mean of every loss since the last call of `means`, which will have these losses too."""
        sums = torch.stack(list(self.sums.values())).tolist() if self.sums else []
        return {name: total / self.count for name, total in zip(self.sums, sums, strict=True)}

    def state_dict(self) -> dict[str, Any]:
        """What the next line of the log depends on."""
        return {"sums": dict(self.sums), "count": self.count}

    def load_state_dict(self, state: dict[str, Any], device: torch.device) -> None:
        """Go on where `state` was taken."""
        self.sums = {name: loss.to(device) for name, loss in state["sums"].items()}
        self.count = state["count"]


def _names(samples: list[int], sample_name: Callable[[int], str]) -> str:
    names = [sample_name(index) for index in samples[:_MAX_NAMES]]
    more = len(samples) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
