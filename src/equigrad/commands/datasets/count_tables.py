"""Category counts as text: a summary, the groups by frequency, and bars from head to tail."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from equigrad.analysis.comparison import evenly_chosen
from equigrad.data.frequency import Counts, shot_split
from equigrad.terminal import printable

NUM_SHOWN = 20
_BAR_WIDTH = 40
_NAME_WIDTH = 24


@dataclass(frozen=True)
class CountRow:
    """How many images a category has, and its group."""

    label: int
    name: str
    count: int
    group: str


def count_rows(counts: Counts, names: Sequence[str]) -> list[CountRow]:
    """A row for each category, in the order of labels."""
    group_of = {int(label): group for group, members in shot_split(counts).items() for label in members}
    return [
        CountRow(label, name, int(count), group_of[label])
        for label, (name, count) in enumerate(zip(names, counts, strict=True))
    ]


def count_text(
    source: str,
    counts: Counts,
    names: Sequence[str],
    *,
    show_all: bool = False,
    unit: str = "images",
    total: int | None = None,
) -> str:
    """What `equigrad data counts` prints; of many categories some at equal distances, unless all are wanted.

    Args:
        source: what is counted, for the first line.
        counts: count of each category, (C,).
        names: C names.
        show_all: all categories.
        unit: what is counted.
        total: number of units, where one may count for several categories; None is the sum of the counts.
    """
    rows = sorted(count_rows(counts, names), key=lambda row: -row.count)
    shown = rows if show_all else [rows[index] for index in evenly_chosen(len(rows), NUM_SHOWN)]
    lines = [
        _summary(source, counts, unit, int(counts.sum()) if total is None else total),
        "",
        *_groups(counts),
        "",
        *_bars(shown),
    ]
    if len(shown) < len(rows):
        lines += ["", hidden_rows(len(shown), len(rows))]
    return "\n".join(lines)


def hidden_rows(num_shown: int, num_all: int) -> str:
    """The line below a table that does not show all categories."""
    return f"{num_shown} of {num_all:,} categories are shown; --all shows all, --csv FILE writes them"


def _summary(source: str, counts: Counts, unit: str, total: int) -> str:
    present = counts[counts > 0]
    text = f"{printable(source)}: {total:,} {unit}, {len(counts):,} categories"
    if not len(present):
        return text
    ratio = f"{present.max() / present.min():,.4g}"
    without = f", {len(counts) - len(present):,} without {unit}" if len(present) < len(counts) else ""
    return f"{text}{without}, from {present.max():,} to {present.min():,} {unit} each, imbalance factor {ratio}"


def _groups(counts: Counts) -> list[str]:
    lines = [f"{'group':8}{'categories':>12}{'images':>12}{'share':>9}"]
    for group, members in shot_split(counts).items():
        images = int(counts[members].sum())
        share = 100 * images / max(int(counts.sum()), 1)
        lines.append(f"{group:8}{len(members):12,}{images:12,}{share:8.1f}%")
    return lines


def _bars(rows: Sequence[CountRow]) -> list[str]:
    largest = max((row.count for row in rows), default=0) or 1
    names = [printable(row.name) for row in rows]
    width = min(max(map(len, names)), _NAME_WIDTH)
    return [
        f"{_short(name, width):{width}} {row.count:9,} {_bar(row.count / largest)} {row.group}"
        for name, row in zip(names, rows, strict=True)
    ]


def _short(name: str, width: int) -> str:
    return name if len(name) <= width else name[: width - 1] + "…"


def _bar(share: float) -> str:
    return "█" * int(np.ceil(share * _BAR_WIDTH))
