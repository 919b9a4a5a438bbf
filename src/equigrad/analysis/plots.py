"""Figures of gradients, metrics and category counts, as PNG files for a README or a paper."""

import io
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from equigrad.analysis.compared_methods import ComparedMethods
from equigrad.analysis.comparison import COLOURS, Categories, ComparedRun, Comparison, compare, smoothed
from equigrad.analysis.history import RunHistory
from equigrad.analysis.pictures.text import font_file, is_in_default_font, legible
from equigrad.analysis.rounding import percent
from equigrad.data.frequency import Groups
from equigrad.files import write_atomically
from equigrad.run_files import STATISTICS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _DPI = 8.3, 200  # inches: text is as large as that of a README around the figure
_LINES = ("-", "--", "-.", ":")
_NUM_PARTS = 5
_STYLE: dict[str, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#6b7280",
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "text.parse_math": False,  # names of runs and categories are not formulas
}


def plot_gradients(runs: Sequence[RunHistory], file: str | Path) -> None:
    """Accumulated positive and negative gradient and their ratio, by category, most frequent first (Fig. 1).

    Args:
        runs: drawn into the same panels; runs without statistics are left out.
        file: PNG.
    """
    comparison = _with_statistics(runs)
    with style():
        figure = new_figure(height=6.4)
        rows = figure.subplots(3, 1, sharex=True)
        titles = ("Positive gradient received", "Negative gradient received", "Ratio of positive to negative")
        for axes, title, quantity in zip(rows, titles, ("positive", "negative", "ratio"), strict=True):
            for index, run in enumerate(comparison.runs):
                _draw_categories(axes, run, quantity, _run_style(index))
            axes.set_title(title)
        _draw_balance(rows[2])
        _finish_ratio(rows[2], comparison)
        rows[2].set_xlabel(_category_label(comparison.categories))
        for axes in rows:
            _mark_groups(axes, comparison.categories, with_names=axes is rows[0])
        figure.legend(*rows[2].get_legend_handles_labels(), loc="outside upper center", ncols=4)
        save_figure(figure, file)


def plot_ratio_over_training(runs: Sequence[RunHistory], file: str | Path) -> None:
    """Ratio of every category after each fifth of a run, one panel for each run (the paper's `vis_balance_ratio`).

    Args:
        runs: runs without statistics are left out.
        file: PNG.
    """
    comparison = _with_statistics(runs)
    num_columns = min(len(comparison.watched), 2)
    num_rows = -(-len(comparison.watched) // num_columns)
    with style():
        figure = new_figure(height=0.5 + 2.7 * num_rows)
        panels = figure.subplots(num_rows, num_columns, sharex=True, sharey=True, squeeze=False)
        for axes, run in zip(panels.flat, comparison.watched, strict=False):
            _draw_balance(axes)
            _draw_fractions(axes, run)
            axes.set_title(f"{run.name}, {_last_step(run):,} steps")
            _mark_groups(axes, comparison.categories, with_names=True)
        _finish_ratio(panels[0, 0], comparison)
        for axes in panels.flat[len(comparison.watched) :]:
            axes.set_visible(False)
        figure.supxlabel(_category_label(comparison.categories), fontsize="medium")
        figure.supylabel("gradient ratio", fontsize="medium")
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=_NUM_PARTS)
        save_figure(figure, file)


def plot_groups(runs: Sequence[RunHistory], file: str | Path, *, metrics: Sequence[str] | None = None) -> None:
    """Metrics by frequency group as bars, one colour for each run.

    Args:
        runs: runs that were not evaluated are left out.
        file: PNG.
        metrics: names in the evaluation; None for the headline and those of the groups.
    """
    comparison = compare([run for run in runs if run.evaluation])
    names = comparison.group_metric_names() if metrics is None else list(metrics)
    unknown = [name for name in names if name not in comparison.metric_names]
    if unknown:
        raise ValueError(f"metrics must be among {comparison.metric_names}, got {unknown}")
    with style():
        figure = new_figure(height=3.2)
        axes = figure.subplots()
        width = 0.8 / len(comparison.runs)
        for index, run in enumerate(comparison.runs):
            heights = [100 * (run.result.get(name) or 0) for name in names]
            left = np.arange(len(names)) - 0.4 + width * (index + 0.5)
            bars = axes.bar(left, heights, 0.92 * width, color=COLOURS[index % len(COLOURS)], label=run.name)
            labels = [_percent(run.result.get(name)) for name in names]
            axes.bar_label(bars, labels, padding=2, fontsize=9 if len(comparison.runs) * len(names) <= 16 else 7)
        axes.set_xticks(range(len(names)), names)
        axes.tick_params(axis="x", length=0)
        axes.set_ylabel("%")
        figure.legend(loc="outside upper center", ncols=4)
        save_figure(figure, file)


def plot_differences(compared: ComparedMethods, file: str | Path) -> None:
    """Differences of methods from the first one with their intervals, one panel for each column.

    Args:
        compared: two methods or more.
        file: PNG.
    """
    differences, others = compared.differences, compared.methods[1:]
    columns = np.flatnonzero(np.isfinite(differences.estimate).all(axis=0)).tolist() or [0]
    heights = np.arange(len(others))[::-1]
    with style():
        figure = new_figure(height=1.3 + 0.3 * len(others))
        panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
        for axes, column in zip(panels, columns, strict=True):
            axes.axvline(0, color="#6b7280", linewidth=0.8, zorder=0)
            estimates, margins = differences.estimate[1:, column], np.nan_to_num(differences.margin[1:, column])
            axes.errorbar(estimates, heights, xerr=margins, fmt="o", markersize=4, capsize=2, color=COLOURS[0])
            axes.set_title(compared.columns[column].name, fontsize=9)
            axes.margins(x=0.15)
        panels[0].set_yticks(heights, others)
        panels[0].set_ylim(-0.6, len(others) - 0.4)
        figure.supxlabel(f"percentage points from {compared.methods[0]}", fontsize="medium")
        save_figure(figure, file)


def plot_tail(counts: NDArray[np.int64], groups: Groups, file: str | Path) -> None:
    """Images of every category, most frequent first, coloured by group.

    Args:
        counts: (C,) images of each category.
        groups: categories of each group, rarest group first.
        file: PNG.
    """
    rank = np.empty(len(counts), dtype=np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(1, len(counts) + 1)
    with style():
        figure = new_figure(height=3.2)
        axes = figure.subplots()
        for index, (name, members) in enumerate(groups.items()):
            label = f"{name} ({len(members):,})"
            axes.bar(rank[members], counts[members], 1.0, color=COLOURS[index % len(COLOURS)], label=label)
        axes.set_yscale("symlog", linthresh=1)  # on a logarithmic axis a category without images would be missing
        axes.yaxis.set_major_formatter("{x:,g}")
        axes.set_xlim(0.5, len(counts) + 0.5)
        axes.set_xlabel(f"{len(counts):,} categories, most frequent first")
        axes.set_ylabel("images")
        figure.legend(loc="outside upper center", ncols=4)
        save_figure(figure, file)


def _with_statistics(runs: Sequence[RunHistory]) -> Comparison:
    comparison = compare(runs)
    if not comparison.watched:
        raise ValueError(f"{runs[0].folder}: no run has {STATISTICS}, so there are no gradients to draw")
    return comparison


def _draw_categories(axes: "Axes", run: ComparedRun, quantity: str, style: dict[str, Any]) -> None:
    """The last snapshot of a run: a faint dot for each category and a line for the running median."""
    if run.statistics is None:
        return
    values = getattr(run.statistics, quantity)[-1]
    shown = np.where(values > 0, values, np.nan) if quantity != "ratio" else values
    ranks = np.arange(1, len(values) + 1)
    axes.plot(ranks, shown, ".", markersize=2.5, alpha=0.18, color=style["color"], markeredgewidth=0)
    axes.plot(ranks, smoothed(shown), label=run.name, **style)
    if quantity != "ratio" and (values > 0).any():  # a logarithmic axis needs a positive value
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")


def _draw_fractions(axes: "Axes", run: ComparedRun) -> None:
    """The ratio after each fifth of the run, at the nearest snapshot."""
    from matplotlib import colormaps

    assert run.statistics is not None
    steps, ratios = run.statistics.steps, run.statistics.ratio
    for part in range(1, _NUM_PARTS + 1):
        index = int(np.abs(steps - steps[-1] * part / _NUM_PARTS).argmin())
        colour = colormaps["viridis_r"](0.15 + 0.85 * part / _NUM_PARTS)
        label = f"after {100 * part // _NUM_PARTS} %"
        axes.plot(np.arange(1, ratios.shape[1] + 1), smoothed(ratios[index]), color=colour, label=label, linewidth=1.4)


def _last_step(run: ComparedRun) -> int:
    return int(run.statistics.steps[-1]) if run.statistics is not None else 0


def _finish_ratio(axes: "Axes", comparison: Comparison) -> None:
    """Limits from 0 to above all lines; a logarithmic axis if ratios are far above balance."""
    lines = [smoothed(run.statistics.ratio[-1]) for run in comparison.watched if run.statistics is not None]
    highest = max((float(np.nanmax(line)) for line in lines if np.isfinite(line).any()), default=1.0)
    if highest > 3:
        axes.set_yscale("symlog", linthresh=1, linscale=1.5)
        axes.set_yticks([0, 0.5, 1, 10, 100], ["0", "0.5", "1", "10", "100"], minor=False)
    axes.set_ylim(0, max(1.3, 1.3 * highest) if highest <= 3 else 3 * highest)


def _draw_balance(axes: "Axes") -> None:
    axes.axhline(1, color="#6b7280", linewidth=0.8, linestyle=(0, (2, 2)), zorder=0)


def _mark_groups(axes: "Axes", categories: Categories, with_names: bool) -> None:
    """Lines between the groups, unless sorting by count mixes them."""
    edges = np.flatnonzero(np.diff(categories.groups))
    if len(edges) >= len(categories.group_names):
        return
    for edge in edges:
        axes.axvline(edge + 1.5, color="#9ca3af", linewidth=0.7, zorder=0)
    starts = [0, *(edges + 1).tolist()]
    ends = [*(edges + 1).tolist(), len(categories)]
    for start, end in zip(starts, ends, strict=True) if with_names else ():
        name = categories.group_names[categories.groups[start]]
        at = ((start + end + 1) / 2, 0.97)
        axes.annotate(name, at, xycoords=("data", "axes fraction"), ha="center", va="top", color="#6b7280", fontsize=9)
    axes.set_xlim(0.5, len(categories) + 0.5)


def _category_label(categories: Categories) -> str:
    by = "most frequent first" if categories.counts is not None else "most positive gradient first"
    return f"{len(categories):,} categories, {by}"


def _run_style(index: int) -> dict[str, Any]:
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": _LINES[index % len(_LINES)]}


def _percent(value: float | None) -> str:
    # "100.0" would run into its neighbour.
    return percent(value).replace("100.0", "100")


def style() -> AbstractContextManager[None]:
    """How all figures look."""
    from matplotlib import rc_context

    return rc_context(_STYLE)  # type: ignore[arg-type]  # newer stubs list every key


def new_figure(height: float, width: float = _WIDTH) -> "Figure":
    """An empty figure, in inches."""
    # Without pyplot, the caller's windows, backend and current figure do not change.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: "Figure", file: str | Path) -> None:
    """Write a PNG; names in any script are drawn in a font that has their letters."""
    _choose_fonts(figure)
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=_DPI)
    write_atomically(Path(file), content.getvalue())


def _choose_fonts(figure: "Figure") -> None:
    """Matplotlib would draw a box for each letter that its own font does not have; it cannot draw emoji in colour."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        if not is_in_default_font(text.get_text()):
            shown = legible(text.get_text(), with_emoji=False)
            text.set_text(shown)
            text.set_fontproperties(FontProperties(fname=font_file(shown), size=text.get_fontsize()))
