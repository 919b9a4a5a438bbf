"""The data that the script of the page draws: rounded, and no more than a page of a few megabytes can hold."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from equigrad.analysis import findings
from equigrad.analysis.comparison import ComparedRun, Comparison, evenly_chosen
from equigrad.analysis.report.calibration import reliability
from equigrad.analysis.report.predictions import RunPredictions
from equigrad.analysis.rounding import changes, percents, significant
from equigrad.analysis.snapshots import Floats, Ints, RecognitionOverTime, StatisticsOverTime

_MAX_SLIDER_STEPS = 16
_MAX_SLIDER_VALUES = 400_000  # of all runs, categories and steps
_MAX_CURVE_STEPS = 200


def script_data_of(comparison: Comparison, predictions: Sequence[RunPredictions | None]) -> dict[str, Any]:
    """Everything the script needs; runs have null for what they did not record."""
    categories = comparison.categories
    steps = _slider_steps(comparison)
    runs = zip(comparison.runs, predictions, strict=True)
    return {
        "names": categories.names,
        "counts": None if categories.counts is None else categories.counts.tolist(),
        "groupNames": categories.group_names,
        "groups": categories.groups.tolist(),
        "metric": comparison.metric_name,
        "headline": next(iter(comparison.metric_names), None),
        "starving": findings.STARVING,
        "starvingRatio": findings.STARVING_RATIO,
        "steps": steps.tolist(),
        "runs": [_run_data(comparison, run, found, steps) for run, found in runs],
    }


def _slider_steps(comparison: Comparison) -> Ints:
    """Evenly chosen steps at which some run has a snapshot of samples or gradients."""
    reached = [
        *(run.statistics.steps[np.isfinite(run.statistics.ratio).any(1)] for run in comparison.runs if run.statistics),
        *(
            run.recognition.steps[np.isfinite(run.recognition.share).any(1)]
            for run in comparison.runs
            if run.recognition
        ),
    ]
    steps = np.unique(np.concatenate(reached)) if reached else np.empty(0, dtype=np.int64)
    if len(steps) == 0:
        return steps
    affordable = _MAX_SLIDER_VALUES // (len(reached) * len(comparison.categories))
    return steps[evenly_chosen(len(steps), min(_MAX_SLIDER_STEPS, max(affordable, 2)))]


def _run_data(
    comparison: Comparison, run: ComparedRun, predictions: RunPredictions | None, steps: Ints
) -> dict[str, Any]:
    first = comparison.runs[0]
    found: dict[str, Any] = {"name": run.name}
    if run.metric is not None:
        found["metric"] = percents(run.metric)
        if run is not first and first.metric is not None:
            found["change"] = changes(run.metric, first.metric)
    if run.recognition is not None:
        found["won"] = _at_steps(run.recognition, np.rint(100 * run.recognition.share), steps, digits=3)
        found["wonCurves"] = _curves(run.recognition, 100 * comparison.group_won(run))
    if run.statistics is not None:
        found["ratio"] = _at_steps(run.statistics, run.statistics.ratio, steps, digits=3)
        found["ratioCurves"] = _curves(run.statistics, comparison.group_ratios(run))
    if snapshots := run.recognition or run.statistics:
        found["curveSteps"] = snapshots.steps[_curve_rows(snapshots)].tolist()
    found["loss"] = _course([(line["step"], line.get("loss")) for line in run.history.metrics])
    headline = next(iter(comparison.metric_names), None)
    tests = [(step, value) for step, name, value in run.history.tests if name == headline]
    found["evaluations"] = _course(zip((step for step, _ in tests), percents(value for _, value in tests), strict=True))
    if predictions is not None and predictions.images is not None:
        found["reliability"] = reliability(predictions.images, comparison.categories)
    return {name: value for name, value in found.items() if value is not None}


def _at_steps(
    snapshots: StatisticsOverTime | RecognitionOverTime, values: Floats, steps: Ints, digits: int
) -> list[list[float | None] | None]:
    """At each step of the slider the last snapshot up to then."""
    rows = np.searchsorted(snapshots.steps, steps, side="right") - 1
    shown = [values[row] if row >= 0 else None for row in rows]
    return [None if row is None else significant(row, digits) for row in shown]


def _curves(snapshots: StatisticsOverTime | RecognitionOverTime, values: Floats) -> list[list[float | None]]:
    """A curve for each group."""
    return [significant(curve, 3) for curve in values[_curve_rows(snapshots)].T]


def _curve_rows(snapshots: StatisticsOverTime | RecognitionOverTime) -> Ints:
    return evenly_chosen(len(snapshots.steps), _MAX_CURVE_STEPS)


def _course(points: Iterable[tuple[int, Any]]) -> list[tuple[int, float]] | None:
    """Step and value of two points or more, evenly chosen; None if there are fewer."""
    known = [(step, float(f"{value:.4g}")) for step, value in points if isinstance(value, int | float)]
    known = [(step, value) for step, value in known if np.isfinite(value)]
    return [known[index] for index in evenly_chosen(len(known), _MAX_CURVE_STEPS)] if len(known) > 1 else None
