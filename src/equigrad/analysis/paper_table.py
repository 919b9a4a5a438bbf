"""A table of the paper beside what runs reached: numbers, spread over seeds, and whether both rank the rows alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from equigrad.analysis.compared_tables import Table, as_markdown, mean_and_spread

STANDS_FOR = {"AP1": "APr", "AP5": "APf", "APb": "AP"}
"""What is read where a run lacks a metric: of OpenImages' groups the nearest, and without masks the AP is of boxes."""

_ABSENT = "–"


@dataclass(frozen=True)
class ResultRow:
    """A row of a table.

    Args:
        variant: what the table repeats its rows for; empty if nothing.
        label: what the row is called.
        published: numbers of the paper in per cent.
        results: metrics as fractions, by seed.
        run: name of the first of its runs.
        is_compared: whether it counts in the agreement of ranks; variants that the paper does not distinguish do not.
    """

    variant: str
    label: str
    published: Mapping[str, float]
    results: Mapping[int, Mapping[str, float | None]]
    run: str
    is_compared: bool = True

    def values(self, column: str) -> list[float]:
        """A metric of each seed, in per cent."""
        found = [_percent(result, column) for result in self.results.values()]
        return [value for value in found if value is not None]

    def mean(self, column: str) -> float:
        """Over seeds; nan without any."""
        values = self.values(column)
        return float(np.mean(values)) if values else np.nan

    def spread(self, column: str) -> float:
        """Standard deviation over seeds; nan with less than two."""
        values = self.values(column)
        return float(np.std(values, ddof=1)) if len(values) > 1 else np.nan


@dataclass(frozen=True)
class Agreement:
    """How well two columns rank the same rows.

    Args:
        tau: Kendall's tau-b, from -1 to 1; nan where one of the columns ranks nothing.
        num_rows: that both have.
    """

    tau: float
    num_rows: int

    def __str__(self) -> str:
        return _ABSENT if np.isnan(self.tau) else f"{self.tau:+.2f}".replace("-", "−")


def agreement(rows: Sequence[ResultRow], column: str) -> Agreement:
    """Rank agreement between the published and our column, of the rows of one variant."""
    compared = [row for row in rows if row.is_compared and column in row.published]
    pairs = [(row.published[column], round(row.mean(column), 3)) for row in compared if row.values(column)]
    return Agreement(kendall_tau(pairs), len(pairs))


def kendall_tau(pairs: Sequence[tuple[float, float]]) -> float:
    """Kendall's tau-b of pairs of numbers: ties in one of them count for neither side."""
    signs = np.array([(np.sign(a - c), np.sign(b - d)) for (a, b), (c, d) in combinations(pairs, 2)])
    if len(signs) == 0:
        return np.nan
    untied = np.count_nonzero(signs, axis=0)
    return float(signs.prod(axis=1).sum() / np.sqrt(untied.prod())) if untied.all() else np.nan


def columns_of(rows: Sequence[ResultRow]) -> list[str]:
    """The published columns, in their order."""
    return list(dict.fromkeys(column for row in rows for column in row.published))


def variants_of(rows: Sequence[ResultRow]) -> dict[str, list[ResultRow]]:
    """The rows of each variant."""
    found: dict[str, list[ResultRow]] = {}
    for row in rows:
        found.setdefault(row.variant, []).append(row)
    return found


def paper_table(rows: Sequence[ResultRow]) -> Table:
    """Published / ours in every cell, a line with the rank agreement after the rows of each variant."""
    columns = columns_of(rows)
    table = [["published / ours, %", "seeds", *columns]]
    for variant, members in variants_of(rows).items():
        if variant:
            table.append([f"**{variant}**", *[""] * (1 + len(columns))])
        table += [[row.label, str(len(row.results)), *(_cell(row, column) for column in columns)] for row in members]
        table.append(["*rank agreement (tau)*", "", *(str(agreement(members, column)) for column in columns)])
    return table


def _cell(row: ResultRow, column: str) -> str:
    published = f"{row.published[column]:.1f}" if column in row.published else _ABSENT
    return f"{published} / {mean_and_spread(row.mean(column), row.spread(column))}"


def table_records(rows: Sequence[ResultRow]) -> list[dict[str, Any]]:
    """A record for each row and seed, and the published numbers beside it: the CSV of a table."""
    columns = columns_of(rows)
    records = []
    for row in rows:
        for seed, result in row.results.items() or [(None, {})]:
            percents = {column: _percent(result, column) for column in columns}
            ours = {f"ours_{name}": None if value is None else round(value, 6) for name, value in percents.items()}
            published = {f"published_{column}": row.published.get(column) for column in columns}
            facts = {"variant": row.variant, "row": row.label, "compared": int(row.is_compared), "run": row.run}
            records.append({**facts, "seed": seed, **ours, **published})
    return records


def _percent(result: Mapping[str, float | None], column: str) -> float | None:
    value = result.get(column, result.get(STANDS_FOR.get(column, "")))
    return None if value is None else 100 * value


def markdown(title: str, rows: Sequence[ResultRow], notes: Sequence[str]) -> str:
    """The table as a page of Markdown."""
    return "\n\n".join([f"# {title}", as_markdown(paper_table(rows)), *notes]) + "\n"
