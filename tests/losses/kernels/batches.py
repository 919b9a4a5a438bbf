"""Batches in every layout and dtype that the kernels take, and what the plain formula in float64 says of them."""

import math
import os
from dataclasses import dataclass
from typing import NamedTuple

import torch
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from equigrad import BACKGROUND, IGNORE
from losses.gradients import gradient_sums

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
PLACES = [(), (1,), (3,), (2, 2)]

NUM_EXAMPLES = int(os.environ.get("EQUIGRAD_KERNEL_EXAMPLES", "10"))
"""Batches that each property is tried on; `make kernel-space` tries more."""

MAX_ELEMENTS = 75_000 if NUM_EXAMPLES > 10 else 4_000
"""Of a batch: the interpreter takes some 10 ms for each tile of at most a few thousand."""


@dataclass(frozen=True)
class Batch:
    """Random logits, labels and vectors."""

    num_samples: int
    num_classes: int
    places: tuple[int, ...]
    layout: str
    dtype: torch.dtype
    spread: float
    seed: int
    background: bool = True

    def __post_init__(self) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        shape = (self.num_samples, self.num_classes, *self.places)
        logits = self.spread * torch.randn(shape, generator=generator, dtype=torch.float64)
        labels = torch.randint(-2, self.num_classes, (self.num_samples, *self.places), generator=generator)
        labels[labels == BACKGROUND] = BACKGROUND if self.background else 0
        labels[labels == -2] = IGNORE
        self._set("logits", in_layout(logits.to(self.dtype), self.layout))
        self._set("labels", labels)
        self._set("quality", torch.rand(labels.shape, generator=generator))
        for name in ("first", "second", "third"):
            self._set(name, torch.rand(self.num_classes, generator=generator, dtype=torch.float64))

    def _set(self, name, value):
        object.__setattr__(self, name, value)

    @property
    def magnitude(self) -> float:
        return float(self.logits.abs().max()) if self.logits.numel() else 0.0

    def expected(self, formula, labels=None) -> "Expected":
        """Sums over the samples of `formula(logits, labels)`, and what autograd makes of it; float64."""
        labels = self.labels if labels is None else labels
        logits = self.logits.to(torch.float64, copy=True).requires_grad_()
        loss = formula(logits, labels).sum()
        (gradient,) = torch.autograd.grad(loss, logits)
        return Expected(loss.detach(), gradient, *gradient_sums(gradient, labels))


def in_layout(values: Tensor, layout: str) -> Tensor:
    """The same numbers, elsewhere in memory."""
    if layout == "channels last":
        return values.movedim(1, -1).contiguous().movedim(-1, 1)
    if layout == "columns of a larger tensor":
        return torch.cat([values, torch.full_like(values[:, :1], torch.nan)], 1)[:, :-1]
    if layout == "transposed":
        return values.movedim(0, -1).contiguous().movedim(-1, 0)
    return values


@st.composite
def batches(draw, **fixed):
    """Few or many categories, up to 75,000 by `make kernel-space`; a sample may span several tiles."""
    num_classes = draw(st.one_of(st.integers(1, 6), st.sampled_from([129, 300]), st.integers(1, MAX_ELEMENTS)))
    num_samples = draw(st.integers(0, min(3, MAX_ELEMENTS // num_classes)))
    places = [place for place in PLACES if num_samples * num_classes * math.prod(place) <= MAX_ELEMENTS]
    return Batch(
        num_samples=num_samples,
        num_classes=num_classes,
        places=draw(st.sampled_from(places)),
        layout=draw(st.sampled_from(["dense", "channels last", "columns of a larger tensor", "transposed"])),
        dtype=draw(st.sampled_from(DTYPES)),
        spread=draw(st.sampled_from([0.1, 3.0, 30.0, 1e4])),
        seed=draw(st.integers(0, 2**31)),
        **fixed,
    )


class Expected(NamedTuple):
    loss: Tensor
    gradient: Tensor
    positive: Tensor
    negative: Tensor


def assert_result(result, expected: Expected, dtype: torch.dtype, magnitude: float = 0.0) -> None:
    """The sums of a pass to the rounding of its arithmetic, the gradient to that of the logits' dtype.

    A softmax of s z + m that reaches a magnitude is as exact as the exponents are, which are rounded beside it.
    """
    close = {"rtol": 1e-9, "atol": 1e-12} if dtype == torch.float64 else {"rtol": 3e-5, "atol": 3e-6}
    if dtype != torch.float64:
        close["rtol"] += 2 * magnitude * torch.finfo(torch.float32).eps
    assert_close(result.loss_sum, expected.loss, **close)
    assert_close(result.positive, expected.positive, **close)
    assert_close(result.negative, expected.negative, **close)
    assert result.gradient.dtype == dtype
    rounding = torch.finfo(dtype).eps
    close = {"rtol": max(close["rtol"], rounding), "atol": max(close["atol"], torch.finfo(dtype).smallest_normal)}
    assert_close(result.gradient.double(), expected.gradient, **close)
