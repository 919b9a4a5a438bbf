"""A comparison of methods as tables: for the terminal, in Markdown and in CSV."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from equigrad.analysis.compared_methods import ComparedMethods
from equigrad.analysis.rounding import ABSENT, signed_tenths, tenths

Table = list[list[str]]  # the first row is the heading


def result_table(compared: ComparedMethods) -> Table:
    """Mean ± standard deviation over seeds, in per cent."""
    cells = zip(compared.methods, compared.means, compared.spreads, strict=True)
    rows = [[name, *map(mean_and_spread, means, spreads)] for name, means, spreads in cells]
    return [["%", *(column.name for column in compared.columns)], *rows]


def difference_table(compared: ComparedMethods) -> Table:
    """Differences from the first method ± half the width of their interval, in points; empty for a single method."""
    differences = compared.differences
    cells = zip(compared.methods[1:], differences.estimate[1:], differences.margin[1:], strict=True)
    rows = [[name, *map(difference_and_margin, estimates, margins)] for name, estimates, margins in cells]
    heading = [f"points from {compared.methods[0]}", *(column.name for column in compared.columns)]
    return [heading, *rows] if rows else []


def category_rows(compared: ComparedMethods) -> list[dict[str, Any]]:
    """A record for each category, most frequent first: the mean over seeds of each method, in per cent."""
    metric = compared.columns[1].of_category
    assert metric is not None
    means = compared.of_categories(metric).mean(axis=1)  # (M, C)
    order = np.argsort([-category.count for category in compared.categories], kind="stable")
    records = []
    for index in order.tolist():
        category = compared.categories[index]
        facts = {"name": category.name, "count": category.count, "group": category.group, "num_test": category.num_test}
        values = (round(float(value), 3) for value in means[:, index])
        records.append({**facts, **dict(zip(compared.methods, values, strict=True))})
    return records


def method_rows(compared: ComparedMethods) -> list[dict[str, Any]]:
    """A record for each method, in per cent: mean, spread, difference and margin of every column."""
    differences = compared.differences
    parts = {"": compared.means, "_std": compared.spreads, "_diff": differences.estimate, "_margin": differences.margin}
    return [
        {"method": name, "seeds": compared.num_seeds}
        | {
            f"{column.metric}{ending}": round(float(values[index, position]), 3)
            for position, column in enumerate(compared.columns)
            for ending, values in parts.items()
        }
        for index, name in enumerate(compared.methods)
    ]


def as_text(table: Table) -> str:
    """Columns of equal width."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join("  ".join(_aligned(row, widths)).rstrip() for row in table)


def as_markdown(table: Table) -> str:
    """A Markdown table."""
    heading, *rows = table
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def mean_and_spread(mean: float, spread: float) -> str:
    """`78.4 ± 0.1`; the spread of one seed is left out, and a group without categories is a dash."""
    if np.isnan(mean):
        return ABSENT
    return tenths(mean) if np.isnan(spread) else f"{tenths(mean)} ± {tenths(spread)}"


def difference_and_margin(estimate: float, margin: float) -> str:
    """`+3.1 ± 1.2`; only the difference where there is no interval, and a dash without categories."""
    if np.isnan(estimate):
        return ABSENT
    text = signed_tenths(estimate)
    return text if np.isnan(margin) else f"{text} ± {tenths(margin)}"


def _aligned(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *rest = zip(row, widths, strict=True)
    return [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]
