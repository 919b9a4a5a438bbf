"""Confusions: what the test samples of each group, and of starving categories, are predicted as."""

from collections.abc import Sequence

import numpy as np

from equigrad.analysis.comparison import Comparison
from equigrad.analysis.findings import run_label, starving
from equigrad.analysis.markup import Html, element, join, table, users_name
from equigrad.analysis.report.predictions import RunPredictions
from equigrad.analysis.rounding import ABSENT, percent
from equigrad.analysis.snapshots import Ints

_NUM_CATEGORIES = 12
_NUM_TAKERS = 3

Predictions = Sequence[RunPredictions | None]  # of each run


def confusion_tables(comparison: Comparison, predictions: Predictions) -> Html:
    """Shares by group, and the most frequent wrong predictions of single categories."""
    return join([_group_tables(comparison, predictions), _taker_table(comparison, predictions)])


def _group_tables(comparison: Comparison, predictions: Predictions) -> Html:
    """The rarest group in sight, the others folded."""
    tail, *others = reversed(range(len(comparison.categories.group_names)))
    folded = [_group_table(comparison, predictions, group) for group in others]
    return join(
        [
            _group_table(comparison, predictions, tail),
            element("details", element("summary", "The other groups"), *folded) if folded else "",
        ]
    )


def _group_table(comparison: Comparison, predictions: Predictions, group: int) -> Html:
    names = comparison.categories.group_names
    rows = [
        [run_label(comparison, run), *map(percent, found.group_shares(comparison.categories)[group])]
        for run, found in zip(comparison.runs, predictions, strict=True)
        if found is not None
    ]
    header = ["run", "correct", *(f"predicted as {name}" for name in names)]
    caption = f"Predictions for {names[group]} test samples, in %, mean over the categories"
    return table(caption, header, rows, "results")


def _taker_table(comparison: Comparison, predictions: Predictions) -> Html:
    chosen = _starved(comparison, predictions)
    if len(chosen) == 0:
        return element("p", "No category with test samples is starving.")
    known = [(run, found) for run, found in zip(comparison.runs, predictions, strict=True) if found is not None]
    rows: list[list[object]] = []
    for category in chosen.tolist():
        cells = [_takers(comparison, found, category) for _, found in known]
        rows.append([users_name(comparison.categories.names[category]), *cells])
    header = ["category", *(run_label(comparison, run) for run, _ in known)]
    caption = f"Starving categories and the {_NUM_TAKERS} most frequent wrong predictions of their test samples"
    return table(caption, header, rows, "takers")


def _starved(comparison: Comparison, predictions: Predictions) -> Ints:
    """Categories with test samples that starve in some run, fewest recognised by the first run first."""
    size = len(comparison.categories)
    found = next(found for found in predictions if found is not None)
    masks = [starving(run) for run in comparison.described] or [np.ones(size, dtype=np.bool_)]
    totals = found.totals(size)
    share = found.right(size) / np.maximum(totals, 1)
    order = np.argsort(share, kind="stable")
    chosen: Ints = order[(np.any(masks, axis=0) & (totals > 0))[order]][:_NUM_CATEGORIES]
    return chosen


def _takers(comparison: Comparison, found: RunPredictions, category: int) -> Html:
    size = len(comparison.categories)
    total, right = int(found.totals(size)[category]), int(found.right(size)[category])
    if not total:
        return Html(ABSENT)
    takers = found.takers(category, _NUM_TAKERS)
    lines = [element("strong", f"{right:,} of {total:,} correct")]
    lines += [
        join([f"{count:,}\u00a0×\u00a0", users_name(comparison.categories.names[said])]) for said, count in takers
    ]
    return join(element("div", line) for line in lines)
