"""Accumulated gradient of every category: the indicator all equalization losses read (Sec. 3.2)."""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Self

import torch
import torch.distributed as dist
from torch import Tensor, nn


class ExactModule(nn.Module):
    """A module whose float64 buffers follow the model to its device but never to its dtype.

    `model.half()` must not round what was summed over a whole training.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        exact = {name: b for name, b in self._buffers.items() if b is not None and b.dtype == torch.float64}
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, before in exact.items():
            moved = getattr(self, name)
            source = moved if before.is_meta else before
            setattr(self, name, source.to(moved.device, torch.float64))
        return self


def is_distributed() -> bool:
    """Whether there are ranks to agree with."""
    return dist.is_available() and dist.is_initialized()


@torch.no_grad()
def sum_over_ranks(values: Tensor) -> Tensor:
    """The sum of what all ranks hold, in place; one collective, or nothing without `torch.distributed`."""
    if is_distributed():
        dist.all_reduce(values)
    return values


class GradientStatistics(ExactModule):
    """Positive and negative gradient that every category has received so far (Sec. 3.2).

    The loss that owns the statistics feeds them; a user only reads them:

        criterion.statistics.ratio     # G_j: near 1 = balanced, near 0 = starving

    Args:
        num_classes: C, without background.
        half_life: updates after which a gradient counts half, for streams and for heads whose first phase would poison
            the ratio for good. None never forgets, as in the paper.
    """

    positive: Tensor  # (C,)  G_j^pos
    negative: Tensor  # (C,)  G_j^neg

    def __init__(self, num_classes: int, half_life: float | None = None) -> None:
        super().__init__()
        check_num_classes(num_classes)
        _check_half_life(half_life)
        self.half_life = half_life
        self._held: list[tuple[Tensor, Tensor, Tensor | float | None]] | None = None
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
        if self._held is not None:
            self._held.append((positive, negative, divisor))
            return
        count = torch.as_tensor(1 if divisor is None else divisor, dtype=torch.float64, device=positive.device)
        positive, negative = positive.double(), negative.double()
        if is_distributed():
            batch = sum_over_ranks(torch.cat([positive, negative, count.reshape(1)]))
            positive, negative = batch[: self.num_classes], batch[self.num_classes : -1]
            count = count if divisor is None else batch[-1]
        if self.half_life is not None:
            kept = 0.5 ** (1 / self.half_life)
            self.positive.mul_(kept)
            self.negative.mul_(kept)
        # Without a sample on any rank the sums are zero too: 0 / tiny adds nothing.
        count = count.clamp(min=torch.finfo(torch.float64).tiny)
        self.positive.addcdiv_(positive, count)
        self.negative.addcdiv_(negative, count)

    @contextmanager
    def _one_batch(self) -> Iterator[None]:
        self._held = []
        try:
            yield
            held = self._held
        finally:
            self._held = None
        if held:
            positives, negatives, divisors = zip(*held, strict=True)
            self.update(torch.stack(positives).sum(0), torch.stack(negatives).sum(0), divisors[0])

    def reset(self) -> None:
        """Forget everything: the next step is that of an untouched loss."""
        self.positive.zero_()
        self.negative.zero_()

    def extra_repr(self) -> str:
        """The number of categories, for `print(model)`."""
        return f"num_classes={self.num_classes}" + ("" if self.half_life is None else f", half_life={self.half_life}")


@contextmanager
def one_batch(module: nn.Module) -> Iterator[None]:
    """Let the losses of a module see several calls as one batch: the levels of a pyramid, the tiles of an image.

    Their statistics rest inside, so that every call has the weights of earlier batches, and move once at the end. The
    calls must share one `normalizer`, or use `reduction="sum"`.
    """
    with ExitStack() as stack:
        for part in module.modules():
            if isinstance(part, GradientStatistics):
                stack.enter_context(part._one_batch())
        yield


def check_num_classes(num_classes: int) -> None:
    """Refuse a C that is no positive int."""
    if isinstance(num_classes, bool) or not isinstance(num_classes, int):
        raise TypeError(f"num_classes must be an int, got {type(num_classes).__name__}")
    if num_classes < 1:
        raise ValueError(f"num_classes must be at least 1, got {num_classes}")


def _check_half_life(half_life: float | None) -> None:
    if half_life is None:
        return
    if isinstance(half_life, bool) or not isinstance(half_life, int | float):
        raise TypeError(f"half_life must be a number of updates or None, got {type(half_life).__name__}")
    if not (math.isfinite(half_life) and half_life > 0):
        raise ValueError(f"half_life must be finite and > 0, got {half_life}")
