"""What is promised of a cell, and why where it is less."""

from typing import NamedTuple

from tests.exactness.cells import Cell


class Promise(NamedTuple):
    """The largest deviations from one fp32 process on the joined batches."""

    statistics: float
    weights: float


# The logits of fp32 differ by the order of sums alone. Those of half precision are rounded: to 2^-8 and 2^-11 of
# their size, which a few steps and the small gradients of a focal loss amplify.
BY_PRECISION = {"fp32": Promise(5e-6, 1e-6), "bf16": Promise(4e-2, 1e-2), "fp16": Promise(6e-3, 2e-3)}


def is_seesaw_in_parts(cell: Cell) -> bool:
    """Seesaw counts the present batch before it weighs it, and the first micro-batch cannot know the later ones."""
    return cell.loss == "SeesawLoss" and cell.accumulate > 1


def promise(cell: Cell) -> Promise:
    """Of Seesaw with micro-batches only the counts."""
    by_precision = BY_PRECISION[cell.precision]
    return by_precision._replace(weights=float("inf")) if is_seesaw_in_parts(cell) else by_precision
