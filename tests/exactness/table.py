"""The matrix as a table of the documentation."""

import itertools

from tests.exactness.cells import ACCUMULATE, MECHANISMS, PRECISIONS, RANKS, Cell
from tests.exactness.matrix import Deviation
from tests.exactness.promises import BY_PRECISION, is_seesaw_in_parts

BEGIN, END = "<!-- measured -->\n", "<!-- end -->\n"


def with_table(page: str, deviations: dict[Cell, Deviation]) -> str:
    """The page with what was measured in the place of what stood between the two marks."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + "\n".join(lines(deviations)) + "\n" + END + after


def lines(deviations: dict[Cell, Deviation]) -> list[str]:
    """The table, and what holds for all of it."""
    num_agreeing = sum(found.ranks_agree for found in deviations.values())
    seesaw = max(found.weights for cell, found in deviations.items() if is_seesaw_in_parts(cell))
    bounds = [f"{name} {limit.statistics:.0e} and {limit.weights:.0e}" for name, limit in BY_PRECISION.items()]
    columns = ["mechanism", "precision", "ranks"]
    columns += ["1 micro-batch" if k == 1 else f"{k} micro-batches" for k in ACCUMULATE]
    return [
        f"- Trainings: {len(deviations)}.",
        f"- Trainings in which the statistics of all ranks are the same bits: {num_agreeing}.",
        f"- Bounds that the tests hold, of statistics and of weights: {', '.join(bounds)}.",
        f"- Left out of the table: weights with Seesaw and micro-batches, which deviate by up to {100 * seesaw:.0f} %.",
        "",
        f"| {' | '.join(columns)} |",
        f"|{'---|' * len(columns)}",
        *(
            f"| {mechanism} | {precision} | {ranks} | "
            + " | ".join(largest(deviations, mechanism, precision, ranks, k) for k in ACCUMULATE)
            + " |"
            for mechanism, precision, ranks in itertools.product(MECHANISMS, PRECISIONS, RANKS)
        ),
    ]


def largest(deviations: dict[Cell, Deviation], mechanism: str, precision: str, ranks: int, accumulate: int) -> str:
    """The largest deviations of a group, over its losses and continuations."""
    group = (mechanism, precision, ranks, accumulate)
    members = {c: d for c, d in deviations.items() if (c.mechanism, c.precision, c.ranks, c.accumulate) == group}
    statistics = max(found.statistics for found in members.values())
    weights = max(found.weights for cell, found in members.items() if not is_seesaw_in_parts(cell))
    return f"{statistics:.1e}, {weights:.1e}"
