"""What the programs of a pass leave behind, and the one kernel that adds it up in a fixed order.

Every program of a pass writes partial sums of its columns, (P, 2, C), and a few numbers of its own, (NUM_TOTALS, P B)
for P programs along the samples and B along the categories. No atomic operation: the result is the same in every run.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from equigrad.losses.inputs import FusedReduction, refuse_normalizer
from equigrad.losses.kernels.arithmetic import is_finite
from equigrad.losses.kernels.launch import Launch, run
from equigrad.losses.kernels.layout import Tiles

NUM_TOTALS = tl.constexpr(4)  # loss, counted samples, bad labels or targets, column sums that are not finite


class Partials(NamedTuple):
    """Memory for what the programs leave behind."""

    sums: Tensor  # (P, 2, C)  positive and negative |gradient|
    totals: Tensor  # (NUM_TOTALS, P B) float64


class PassResult(NamedTuple):
    """What a pass computes. All of it is on the device of the logits; nothing was waited for."""

    loss: Tensor  # ()  divided, in the dtype of the arithmetic
    gradient: Tensor | None  # of the undivided loss, by the logits, in their shape and dtype
    positive: Tensor  # (C,) float64  sums of |gradient| over the entries whose category is the label
    negative: Tensor  # (C,) float64  the same over all other entries
    divisor: Tensor  # () float64  what the loss is divided by, 1 if by nothing
    loss_sum: Tensor  # () float64
    num_counted: Tensor  # () float64  samples that are not ignored
    is_valid: Tensor  # () bool  whether labels, targets and qualities are in their range
    record: Tensor  # (2C + 1,) float64  positive, negative, divisor; the last is NaN if a sum is not finite


class Pass(NamedTuple):
    """A pass that is set up, and the memory of its result."""

    launches: list[Launch]
    result: PassResult

    def run(self) -> PassResult:
        """Launch it. The result is filled by the device while the host goes on."""
        run(*self.launches)
        return self.result


def empty_partials(num_classes: int, tiles: Tiles, like: Tensor, dtype: torch.dtype) -> Partials:
    """Memory for the programs of a pass."""
    return Partials(
        like.new_empty(tiles.num_programs, 2, num_classes, dtype=dtype),
        like.new_empty(NUM_TOTALS.value, tiles.num_programs * tiles.num_blocks, dtype=torch.float64),
    )


def add_up(
    partials: Partials, gradient: Tensor | None, reduction: FusedReduction, normalizer: float | Tensor | None
) -> tuple[Launch, PassResult]:
    """The launch that adds up, and the result that is there once it has run."""
    sums, totals = partials
    if isinstance(normalizer, Tensor) and normalizer.numel() == 1:
        normalizer = normalizer.detach().to(sums.device)
    elif isinstance(normalizer, bool) or not isinstance(normalizer, int | float | None):
        refuse_normalizer(normalizer)
    num_programs, _, num_classes = sums.shape
    record = sums.new_empty(2 * num_classes + 1, dtype=torch.float64)
    numbers = sums.new_empty(3, dtype=torch.float64)
    result = PassResult(
        loss=sums.new_empty(()),
        gradient=gradient,
        positive=record[:num_classes],
        negative=record[num_classes:-1],
        divisor=numbers[0],
        loss_sum=numbers[1],
        num_counted=numbers[2],
        is_valid=sums.new_empty((), dtype=torch.bool),
        record=record,
    )
    block_programs = min(32, triton.next_power_of_2(num_programs))
    block_categories = min(1024 // block_programs, triton.next_power_of_2(num_classes))
    num_blocks = triton.cdiv(num_classes, block_categories)
    arguments = {
        "sums": sums,
        "totals": totals,
        "normalizer": normalizer if isinstance(normalizer, Tensor) else None,
        "divisor": 1.0 if normalizer is None or isinstance(normalizer, Tensor) else float(normalizer),
        "record": record,
        "numbers": numbers,
        "loss": result.loss,
        "is_valid": result.is_valid,
        "num_programs": num_programs,
        "num_totals": totals.shape[1],
        "num_categories": num_classes,
        "IS_MEAN": reduction == "mean" and normalizer is None,
        "BLOCK_P": block_programs,
        "BLOCK_C": block_categories,
        "BLOCK_T": min(1024, triton.next_power_of_2(totals.shape[1])),
    }
    return Launch(totals_kernel, (num_blocks + 1,), arguments), result


@triton.jit
def store_totals(totals, loss, num_counted, num_bad, num_not_finite):
    """What one program leaves behind beside its columns."""
    num_programs = tl.num_programs(0) * tl.num_programs(1)
    own = totals + tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    tl.store(own, loss)
    tl.store(own + num_programs, num_counted)
    tl.store(own + 2 * num_programs, num_bad)
    tl.store(own + 3 * num_programs, num_not_finite)


@triton.jit
def store_sums(sums, positive, negative, columns, is_column, num_categories):
    """Store the column sums of one program; returns how many of them are not finite."""
    own = sums + tl.program_id(0).to(tl.int64) * 2 * num_categories + columns
    positive, negative = tl.sum(positive, 0), tl.sum(negative, 0)
    tl.store(own, positive, mask=is_column)
    tl.store(own + num_categories, negative, mask=is_column)
    bad = is_column & ~(is_finite(positive) & is_finite(negative))
    return tl.sum(bad.to(tl.int32), 0)


@triton.jit
def totals_kernel(
    sums,
    totals,
    normalizer,
    divisor: tl.float64,
    record,
    numbers,
    loss,
    is_valid,
    num_programs,
    num_totals,
    num_categories,
    IS_MEAN: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
    BLOCK_T: tl.constexpr,
):
    """A block of columns for each program but the last, which takes the numbers."""
    if tl.program_id(0) < tl.num_programs(0) - 1:
        columns = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
        is_column = columns < num_categories
        positive = tl.zeros([BLOCK_P, BLOCK_C], tl.float64)
        negative = tl.zeros([BLOCK_P, BLOCK_C], tl.float64)
        for start in range(0, num_programs, BLOCK_P):
            programs = (start + tl.arange(0, BLOCK_P)).to(tl.int64)
            inside = (programs < num_programs)[:, None] & is_column[None, :]
            partial = sums + (2 * programs * num_categories)[:, None] + columns[None, :]
            positive += tl.load(partial, mask=inside, other=0).to(tl.float64)
            negative += tl.load(partial + num_categories, mask=inside, other=0).to(tl.float64)
        tl.store(record + columns, tl.sum(positive, 0), mask=is_column)
        tl.store(record + num_categories + columns, tl.sum(negative, 0), mask=is_column)
    else:
        loss_sum = tl.zeros([BLOCK_T], tl.float64)
        num_counted = tl.zeros([BLOCK_T], tl.float64)
        num_bad = tl.zeros([BLOCK_T], tl.float64)
        num_not_finite = tl.zeros([BLOCK_T], tl.float64)
        for start in range(0, num_totals, BLOCK_T):
            entries = start + tl.arange(0, BLOCK_T)
            inside = entries < num_totals
            own = totals + entries
            loss_sum += tl.load(own, mask=inside, other=0)
            num_counted += tl.load(own + num_totals, mask=inside, other=0)
            num_bad += tl.load(own + 2 * num_totals, mask=inside, other=0)
            num_not_finite += tl.load(own + 3 * num_totals, mask=inside, other=0)
        total, counted = tl.sum(loss_sum, 0), tl.sum(num_counted, 0)
        if normalizer is not None:
            recorded = tl.load(normalizer).to(tl.float64)
        elif IS_MEAN:
            recorded = counted
        else:
            recorded = counted * 0 + divisor
        safe = tl.where(recorded > 0, recorded, 1.0)  # no sample: 0 / 1
        tl.store(numbers, safe)
        tl.store(numbers + 1, total)
        tl.store(numbers + 2, counted)
        tl.store(loss, (total / safe).to(loss.dtype.element_ty))
        is_divisor = is_finite(recorded) & ((recorded > 0) | IS_MEAN)  # a batch without samples has a mean of 0
        tl.store(is_valid, (tl.sum(num_bad, 0) == 0) & is_divisor)
        # The sum over ranks carries the NaN to all of them, so that all leave the batch out of their statistics.
        tl.store(record + 2 * num_categories, tl.where(tl.sum(num_not_finite, 0) > 0, float("nan"), recorded))
