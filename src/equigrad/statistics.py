"""Accumulated gradient of every category: the indicator all equalization losses read (Sec. 3.2)."""

from collections.abc import Callable
from typing import Self

import torch
import torch.distributed as dist
from torch import Tensor, nn


class GradientStatistics(nn.Module):
    """Positive and negative gradient that every category has received so far (Sec. 3.2).

    The loss that owns the statistics feeds them; a user only reads them:

        criterion.statistics.ratio     # G_j: near 1 = balanced, near 0 = starving

    Args:
        num_classes: C, without background.
    """

    positive: Tensor  # (C,)  G_j^pos
    negative: Tensor  # (C,)  G_j^neg

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        if isinstance(num_classes, bool) or not isinstance(num_classes, int):
            raise TypeError(f"num_classes must be an int, got {type(num_classes).__name__}")
        if num_classes < 1:
            raise ValueError(f"num_classes must be at least 1, got {num_classes}")
        # float64: a float32 sum stops growing after enough steps.
        self.register_buffer("positive", torch.zeros(num_classes, dtype=torch.float64))
        self.register_buffer("negative", torch.zeros(num_classes, dtype=torch.float64))

    @property
    def num_classes(self) -> int:
        """C."""
        return self.positive.numel()

    @property
    def ratio(self) -> Tensor:
        """G_j, (C,). Infinite, hence balanced, until a negative gradient arrives."""
        return torch.where(self.negative > 0, self.positive / self.negative, torch.inf)

    @torch.no_grad()
    def update(self, positive: Tensor, negative: Tensor, divisor: Tensor | float | None = None) -> None:
        """Add one batch as if all ranks were one; every rank must call, also without samples.

        Args:
            positive: (C,) sums of |d summed loss / d logit| over the entries whose category is the label.
            negative: (C,) the same over all other entries.
            divisor: what the loss of this rank divides its sum by; None if it does not.
        """
        for name, sums in (("positive", positive), ("negative", negative)):
            if sums.shape != self.positive.shape:
                raise ValueError(f"{name} must be ({self.num_classes},), got {tuple(sums.shape)}")
        count = torch.as_tensor(0 if divisor is None else divisor, dtype=torch.float64, device=positive.device)
        batch = torch.cat([positive.double(), negative.double(), count.reshape(1)])
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(batch)
        if divisor is not None:
            # Without a sample on any rank the sums are zero too: 0 / tiny adds nothing.
            batch /= batch[-1].clamp(min=torch.finfo(torch.float64).tiny)
        batch_positive, batch_negative = batch[:-1].chunk(2)
        self.positive.add_(batch_positive)
        self.negative.add_(batch_negative)

    def reset(self) -> None:
        """Forget everything: the next step is that of an untouched loss."""
        self.positive.zero_()
        self.negative.zero_()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Follow the model to its device but never to its dtype: `model.half()` must not round the sums."""
        exact = self.positive, self.negative
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, before in zip(("positive", "negative"), exact, strict=True):
            moved = getattr(self, name)
            source = moved if before.is_meta else before
            setattr(self, name, source.to(moved.device, torch.float64))
        return self

    def extra_repr(self) -> str:
        """The number of categories, for `print(model)`."""
        return f"num_classes={self.num_classes}"
