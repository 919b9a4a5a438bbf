"""Runs cells of the matrix in real processes, and says how far each is from one process on the joined batches."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from tests.exactness.cells import RANKS, Cell
from tests.exactness.training import Outcome, train_cells, train_joined
from tests.quick_processes import run_ranks
from torch import Tensor


class Deviation(NamedTuple):
    """How far a cell is from one fp32 process on the joined batches."""

    statistics: float  # of any number, relative to that number
    weights: float  # of any weight, relative to the largest of its tensor
    ranks_agree: bool  # whether the statistics of all ranks are the same bits


def measure(cells: list[Cell], folder: Path) -> dict[Cell, Deviation]:
    """Train every cell in the same few processes."""
    run_ranks(train_cells, cells, folder, world_size=max(RANKS), timeout=3600)
    outcomes: dict[Cell, list[Outcome]] = {cell: [] for cell in cells}
    for rank in range(max(RANKS)):
        for number, outcome in torch.load(folder / f"rank_{rank}.pt", weights_only=True).items():
            outcomes[cells[number]].append(Outcome(*outcome))
    return {cell: deviation(cell, found) for cell, found in outcomes.items()}


def deviation(cell: Cell, outcomes: list[Outcome]) -> Deviation:
    assert len(outcomes) == cell.last_ranks
    joined = cached_joined(cell.loss)
    statistics, weights = outcomes[0]
    return Deviation(
        relative(statistics - joined.statistics, joined.statistics),
        max(relative(ours - theirs, theirs.abs().max()) for ours, theirs in zip(weights, joined.weights, strict=True)),
        all(torch.equal(other.statistics, statistics) for other in outcomes),
    )


@cache
def cached_joined(loss: str) -> Outcome:
    return train_joined(loss)


def relative(difference: Tensor, size: Tensor) -> float:
    """The largest quotient; where both are 0 there is no deviation."""
    return float(torch.where(difference == 0, 0.0, difference.abs() / size.abs()).max())
