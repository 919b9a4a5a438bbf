"""The gradient sums of a batch, added to the statistics in one launch."""

import triton
import triton.language as tl
from torch import Tensor

from equigrad.losses.kernels.arithmetic import is_finite
from equigrad.losses.kernels.launch import Launch

BLOCK = 1024


def update_statistics(
    positive: Tensor, negative: Tensor, skipped: Tensor, record: Tensor, *, is_divided: bool, kept: float = 1.0
) -> Launch:
    """Add the record of a batch in place; count it in `skipped` instead if one of its sums is not finite.

    Args:
        positive: (C,) float64, G_j^pos.
        negative: (C,) float64, G_j^neg.
        skipped: () int64, batches that were left out.
        record: (2C + 1,) of `PassResult`, on several ranks summed over them: the NaN of one rank reaches all.
        is_divided: whether the loss is divided, by the last number of the record.
        kept: what a step leaves of earlier gradient, 1 if nothing is forgotten.
    """
    num_classes = positive.numel()
    arguments = {
        "positive": positive,
        "negative": negative,
        "skipped": skipped,
        "record": record,
        "num_categories": num_classes,
        "IS_DIVIDED": is_divided,
        "KEPT": kept,
        "BLOCK": BLOCK,
    }
    return Launch(update_kernel, (triton.cdiv(num_classes, BLOCK),), arguments)


@triton.jit
def update_kernel(
    positive,
    negative,
    skipped,
    record,
    num_categories,
    IS_DIVIDED: tl.constexpr,
    KEPT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A block of categories."""
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_column = columns < num_categories
    divisor = tl.load(record + 2 * num_categories)
    is_usable = is_finite(divisor)
    if tl.program_id(0) == 0:
        tl.store(skipped, tl.load(skipped) + tl.where(is_usable, 0, 1))
    # Without a sample on any rank the sums are zero too: 0 / 1 adds nothing.
    divisor = tl.where(divisor > 0, divisor, 1.0) if IS_DIVIDED else 1.0
    for side in tl.static_range(2):
        sums = positive + columns if side == 0 else negative + columns
        before = tl.load(sums, mask=is_column, other=0)
        batch = tl.load(record + side * num_categories + columns, mask=is_column, other=0)
        tl.store(sums, tl.where(is_usable, before * KEPT + batch / divisor, before), mask=is_column)
