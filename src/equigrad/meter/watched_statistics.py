"""Gradient statistics with a window: the same sums over the whole training, over recent updates, and decayed."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from equigrad.statistics import GradientStatistics, RecordedCall

View = Literal["cumulative", "windowed", "decayed"]
"""All updates; the last ones alone; all, with earlier ones counting less and less."""

_NUM_PARTS = 8  # of a window: the sums at the end of each are kept


class GradientSums(NamedTuple):
    """A view of the statistics; (C,) float64 each."""

    positive: Tensor
    negative: Tensor

    @property
    def ratio(self) -> Tensor:
        """(C,) positive over negative; infinite without negative gradient."""
        return (self.positive / self.negative).nan_to_num_(nan=torch.inf, posinf=torch.inf)


class WatchedStatistics(GradientStatistics):
    """Cumulative statistics that also know what was added lately.

    Args:
        num_classes: C, without background.
        window: updates of the windowed view; it has these and at most an eighth more.
        decay_half_life: updates after which a gradient counts half in the decayed view.
    """

    decayed: Tensor  # (2, C)
    earlier: Tensor  # (9, 2, C) cumulative sums at the ends of the last parts, oldest first

    def __init__(self, num_classes: int, *, window: int, decay_half_life: float) -> None:
        super().__init__(num_classes)
        if window < 1 or not decay_half_life > 0:
            raise ValueError(f"window and half_life must be above 0, got {window} and {decay_half_life}")
        self.window, self.decay_half_life = window, decay_half_life
        self.updates = 0
        self.register_buffer("decayed", torch.zeros(2, num_classes, dtype=torch.float64))
        self.register_buffer("earlier", torch.zeros(_NUM_PARTS + 1, 2, num_classes, dtype=torch.float64))

    def view(self, name: View) -> GradientSums:
        """The sums of one view."""
        total = torch.stack([self.positive, self.negative])
        views = {"cumulative": total, "windowed": total - self.earlier[0], "decayed": self.decayed}
        if name not in views:
            raise ValueError(f"view must be one of {list(views)}, got {name!r}")
        return GradientSums(*views[name])

    @torch.no_grad()
    def add_batch(self, calls: Sequence[RecordedCall], *, micro_batches: int) -> None:
        """Add the calls of one batch to all views; the sums over ranks come with the cumulative one."""
        before = torch.stack([self.positive, self.negative])
        super().add_batch(calls, micro_batches=micro_batches)
        total = torch.stack([self.positive, self.negative])
        self.decayed.mul_(0.5 ** (1 / self.decay_half_life)).add_(total - before)
        self.updates += 1
        if self.updates % max(self.window // _NUM_PARTS, 1) == 0:
            self.earlier.copy_(torch.cat([self.earlier[1:], total[None]]))

    def reset(self) -> None:
        """Forget everything."""
        super().reset()
        self.decayed.zero_()
        self.earlier.zero_()
        self.updates = 0

    def get_extra_state(self) -> dict[str, Any]:
        """The number of updates, for `state_dict`; on the host, where the next one is counted."""
        return {"updates": self.updates}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Go on counting."""
        self.updates = int(state["updates"])
