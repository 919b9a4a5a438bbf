"""The cells of the matrix: each a short training, in one of the ways people train."""

import itertools
from dataclasses import dataclass

MECHANISMS = ("DDP", "FSDP2", "torch.compile", "activation checkpointing")
PRECISIONS = ("fp32", "bf16", "fp16")
RANKS = (1, 2, 4)
ACCUMULATE = (1, 2, 4)
CONTINUATIONS = ("plain", "resumed", "resumed on other ranks")
LOSSES = (
    *("SigmoidEqualizationLoss", "SoftmaxEqualizationLoss", "EqualizedFocalLoss"),
    *("EqualizedQualityFocalLoss", "EqualizedVarifocalLoss", "FocalEqualizationLoss", "SeesawLoss"),
)
OTHER_RANKS = {1: 2, 2: 4, 4: 1}
"""With how many ranks a training goes on that is resumed on another number."""


@dataclass(frozen=True)
class Cell:
    """One training of the matrix."""

    mechanism: str
    precision: str
    ranks: int
    accumulate: int
    continuation: str
    loss: str

    @property
    def last_ranks(self) -> int:
        """With how many ranks it ends."""
        return OTHER_RANKS[self.ranks] if self.continuation == "resumed on other ranks" else self.ranks


def all_cells() -> list[Cell]:
    """Every combination."""
    axes = (MECHANISMS, PRECISIONS, RANKS, ACCUMULATE, CONTINUATIONS, LOSSES)
    return [Cell(*values) for values in itertools.product(*axes)]


def some_cells() -> list[Cell]:
    """For every mechanism each pair of precision, number of ranks and of micro-batches, with losses in turn."""
    groups: dict[tuple[object, ...], list[Cell]] = {}
    for cell in all_cells():
        # A Latin square: two of the three decide the third.
        if (PRECISIONS.index(cell.precision) + RANKS.index(cell.ranks) + ACCUMULATE.index(cell.accumulate)) % 3 == 0:
            groups.setdefault((cell.mechanism, cell.precision, cell.ranks, cell.accumulate), []).append(cell)
    # 21 cells a group, the losses innermost: 8 is prime to 21, so that losses and continuations come in turn.
    cells = [group[8 * number % len(group)] for number, group in enumerate(groups.values())]
    # Compiling takes seconds for each process, loss and precision: one training, on one rank and then on two.
    compiled = Cell("torch.compile", "fp32", 1, 2, "resumed on other ranks", "SoftmaxEqualizationLoss")
    return [cell for cell in cells if cell.mechanism != "torch.compile"] + [compiled]
