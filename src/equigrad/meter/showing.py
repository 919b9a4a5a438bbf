"""The meter's table as text, JSON, picture and TensorBoard scalars."""

import io
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, get_args

import torch

from equigrad.files import write_atomically
from equigrad.meter.table import STARVING, CategoryRow, State

_MAX_LINES = 40
_COLOURS = {"positive": "#0072b2", "negative": "#d55e00", "ratio": "#6b7280", "recognition": "#009e73"}
_LIMIT = "#6b7280"


class Writer(Protocol):
    """A TensorBoard `SummaryWriter`, or anything with its two methods."""

    def add_scalar(self, tag: str, scalar_value: Any, global_step: int) -> Any:
        """One number."""
        ...

    def add_histogram(self, tag: str, values: Any, global_step: int) -> Any:
        """Many numbers."""
        ...


def as_text(rows: Sequence[CategoryRow]) -> str:
    """A table for a terminal, the categories with fewest wins first; at most 40 lines of them."""
    if not any(row.seen or row.negative for row in rows):
        return f"{len(rows):,} categories, nothing watched yet: call watch(logits, labels) before each backward"
    width = max([8, *(len(row.category) for row in rows)])
    lines = [
        f"{'category':{min(width, 24)}} {'seen':>9} {'positive':>9} {'negative':>9} {'ratio':>6} {'wins':>6}  state"
    ]
    worst = sorted(rows, key=lambda row: (row.recognition is None, row.recognition, row.seen))
    for row in worst[:_MAX_LINES]:
        ratio = "–" if row.ratio is None else f"{row.ratio:.2f}"
        wins = "–" if row.recognition is None else f"{100 * row.recognition:.0f} %"
        by = ", ".join(f"{name} {100 * share:.0f} %" for name, share in row.drowned_by)
        lines.append(
            f"{row.category[:24]:{min(width, 24)}} {row.seen:9,.0f} {row.positive:9.3g} {row.negative:9.3g} {ratio:>6} "
            f"{wins:>6}  {row.state}{f', pushed down by {by}' if by else ''}"
        )
    counted = Counter(row.state for row in rows)
    lines.append(
        f"{len(rows):,} categories: " + ", ".join(f"{counted[s]:,} {s}" for s in get_args(State) if counted[s])
    )
    return "\n".join(lines)


def to_json(rows: Sequence[CategoryRow], file: str | Path | None) -> str:
    """A list of objects, one for each category."""
    text = json.dumps([row.as_dict() for row in rows], indent=1, allow_nan=False)
    if file is not None:
        write_atomically(Path(file), text.encode())
    return text


def plot(rows: Sequence[CategoryRow], file: str | Path) -> None:
    """Three panels, categories by samples seen: gradients, ratio, share of samples won."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    ordered = sorted(rows, key=lambda row: -row.seen)
    figure = Figure(figsize=(8.3, 6.4), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    panels = dict(zip(("gradient", "ratio", "wins"), figure.subplots(3, 1, sharex=True), strict=True))
    for name, panel in (
        ("positive", "gradient"),
        ("negative", "gradient"),
        ("ratio", "ratio"),
        ("recognition", "wins"),
    ):
        values = [getattr(row, name) for row in ordered]
        shown = [float("nan") if value is None else value for value in values]
        panels[panel].plot(range(1, len(rows) + 1), shown, ".", color=_COLOURS[name], label=name)
    panels["gradient"].set(title="Gradient received", ylabel="sum, logarithmic")
    if any(row.positive > 0 or row.negative > 0 for row in rows):
        panels["gradient"].set_yscale("log")
    panels["gradient"].legend(frameon=False)
    panels["ratio"].set(title="Gradient ratio", ylabel="positive / negative", ylim=(0, None))
    panels["ratio"].axhline(1, color=_LIMIT, linestyle=":")
    panels["wins"].set(title="Own training samples won; below the dotted line a category starves", ylabel="share won")
    panels["wins"].set(ylim=(-0.03, 1.03), xlabel=f"{len(rows):,} categories, most seen first")
    panels["wins"].axhline(STARVING, color=_LIMIT, linestyle=":")
    content = io.BytesIO()
    figure.savefig(content, format="png")
    write_atomically(Path(file), content.getvalue())


def write_scalars(rows: Sequence[CategoryRow], writer: Writer, step: int, tag: str) -> None:
    """Numbers of categories in each state, medians of tail and head thirds, histograms."""
    counted = Counter(row.state for row in rows)
    for state in get_args(State):
        writer.add_scalar(f"{tag}/{state.replace(' ', '_')}", counted[state], step)
    seen = sorted((row for row in rows if row.seen), key=lambda row: row.seen)
    size = max(len(seen) // 3, 1)
    for name, part in (("tail", seen[:size]), ("head", seen[-size:])):
        for quantity in ("ratio", "recognition"):
            values = [value for row in part if (value := getattr(row, quantity)) is not None]
            if values:
                writer.add_scalar(f"{tag}/{quantity}_{name}", float(torch.tensor(values).median()), step)
    for quantity in ("ratio", "recognition"):
        values = [value for row in rows if (value := getattr(row, quantity)) is not None]
        if values:
            writer.add_histogram(f"{tag}/{quantity}", torch.tensor(values), step)
