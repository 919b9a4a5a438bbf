"""The paper's `grad_ob`: gradients by category on long-tailed and on balanced data, a column for each task."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from equigrad.analysis.comparison import COLOURS, ComparedRun, compare, smoothed
from equigrad.analysis.history import RunHistory
from equigrad.analysis.plots import new_figure, save_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_QUANTITIES = {"positive": "positive gradient", "negative": "negative gradient", "ratio": "ratio"}


class Observed(NamedTuple):
    """A column: two runs of one task."""

    title: str
    long_tailed: RunHistory
    balanced: RunHistory


def plot_observation(columns: Sequence[Observed], file: str | Path) -> None:
    """Positive gradient, negative gradient and ratio over categories by frequency (Fig. 1).

    The two data sets of a column have different numbers of categories, and are aligned by rank. Gradients have an axis
    for each: left for long-tailed, right for balanced data.

    Args:
        columns: whose runs have statistics.
        file: PNG.
    """
    with style():
        figure = new_figure(height=6.0, width=3.0 * len(columns))
        panels = figure.subplots(3, len(columns), squeeze=False, sharex="col")
        for column, observed in enumerate(columns):
            long_tailed, balanced = _watched(observed.long_tailed), _watched(observed.balanced)
            for row, quantity in enumerate(_QUANTITIES):
                axes = panels[row, column]
                _draw(axes, long_tailed, quantity, COLOURS[0], observed.long_tailed.name)
                _draw(
                    axes if quantity == "ratio" else axes.twinx(),
                    balanced,
                    quantity,
                    COLOURS[1],
                    observed.balanced.name,
                )
            panels[0, column].set_title(observed.title)
            panels[2, column].axhline(1, color="#6b7280", linewidth=0.8, linestyle=(0, (2, 2)), zorder=0)
            panels[2, column].set_ylim(0, 1.5)
            panels[2, column].set_xlabel("rank, most frequent first")
        for row, name in enumerate(_QUANTITIES.values()):
            panels[row, 0].set_ylabel(name)
        figure.legend(*panels[2, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
        save_figure(figure, file)


def _watched(run: RunHistory) -> ComparedRun:
    """The run with its categories sorted by frequency."""
    comparison = compare([run])
    if not comparison.watched:
        raise ValueError(f"{run.folder}: its loss keeps no gradient statistics, so there is nothing to draw")
    return comparison.watched[0]


def _draw(axes: "Axes", run: ComparedRun, quantity: str, colour: str, label: str) -> None:
    assert run.statistics is not None
    values = getattr(run.statistics, quantity)[-1]
    ranks = np.linspace(0, 1, len(values))
    options: dict[str, Any] = {"color": colour, "label": label}
    axes.plot(ranks, values, ".", markersize=2.5, alpha=0.25, color=colour, markeredgewidth=0)
    axes.plot(ranks, smoothed(values), **options)
    if quantity != "ratio":
        axes.set_ylim(bottom=0)
        axes.tick_params(axis="y", colors=colour, labelsize=8)
    axes.set_xticks([0, 0.5, 1], ["first", "middle", "last"])


class GroupMeans(NamedTuple):
    """Means over the categories of a frequency group at the end of a run.

    Args:
        positive, negative: gradient.
        positive_samples, negative_samples: M^pos and M^neg of Sec. 3.1, seen in training; background is not counted.
            NaN in runs of earlier versions.
    """

    positive: float
    negative: float
    positive_samples: float
    negative_samples: float

    def __str__(self) -> str:
        samples = f"{self.positive_samples:,.0f} / {self.negative_samples:,.0f}"
        return f"{self.positive:.3g} / {self.negative:.3g} of {samples} samples"


def group_means(run: RunHistory) -> dict[str, GroupMeans]:
    """Positive and negative gradients and samples, by frequency group."""
    watched = _watched(run)
    assert watched.statistics is not None
    sums = [watched.statistics.positive[-1], watched.statistics.negative[-1]]
    categories = compare([run]).categories
    seen = _seen(run, categories.names)
    found = {}
    for index, name in enumerate(categories.group_names):
        members = categories.groups == index
        if members.any():
            found[name] = GroupMeans(*(float(each[members].mean()) for each in (*sums, seen, seen.sum() - seen)))
    return found


def _seen(run: RunHistory, names: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """(C,) training samples of the categories of these names; NaN where the run did not count them."""
    if not run.recognition or run.evaluation is None:
        return np.full(len(names), np.nan)
    counts = next(iter(run.recognition.values())).seen[-1]
    by_name = dict(zip((category.name for category in run.evaluation.categories), counts, strict=True))
    return np.array([by_name[name] for name in names])
