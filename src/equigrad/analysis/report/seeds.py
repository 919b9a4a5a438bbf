"""Spread over seeds: runs that differ only in their seed, as one method."""

from collections.abc import Sequence
from statistics import mean, stdev

from equigrad.analysis.comparison import ComparedRun, Comparison
from equigrad.analysis.findings import result_chunks
from equigrad.analysis.markup import Html, element, join, table, users_name
from equigrad.analysis.provenance import run_settings
from equigrad.analysis.rounding import ABSENT, percent, points

_SEEDS = {"seed", "training.seed"}  # settings in which the runs of one method differ


def seed_table(comparison: Comparison) -> Html:
    """Mean and standard deviation of each method's metrics; empty if no method has two runs with other seeds."""
    methods = _methods(comparison)
    if max(map(len, methods)) < 2 or not comparison.metric_names:
        return Html("")
    names = result_chunks(comparison)[0]
    rows = [[_label(comparison, runs), *(_cell(name, runs, methods[0]) for name in names)] for runs in methods]
    caption = "Mean ± standard deviation over seeds in %"
    if len(methods) > 1:
        caption += f"; small: percentage points against the mean of {methods[0][0].name}"
    return table(caption, ["method", *names], rows, "results")


def _methods(comparison: Comparison) -> list[list[ComparedRun]]:
    """Runs with the same settings and different seeds together, in the order of their first run."""
    found: dict[object, list[ComparedRun]] = {}
    for run in comparison.runs:
        settings = run_settings(run)
        found.setdefault(frozenset((name, settings[name]) for name in settings.keys() - _SEEDS), []).append(run)
    methods = []
    for runs in found.values():
        seeds = {tuple(run_settings(run).get(name) for name in _SEEDS) for run in runs}
        methods += [runs] if len(seeds) == len(runs) else [[run] for run in runs]
    return methods


def _label(comparison: Comparison, runs: Sequence[ComparedRun]) -> Html:
    number = comparison.runs.index(runs[0])
    swatch = element("span", class_=f"swatch run-{number % 6}", aria_hidden="true")
    count = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
    return join([swatch, users_name(runs[0].name), count])


def _cell(name: str, runs: Sequence[ComparedRun], base: Sequence[ComparedRun]) -> Html:
    values, bases = _known(name, runs), _known(name, base)
    if not values:
        return Html(ABSENT)
    spread = f" ± {percent(stdev(values))}" if len(values) > 1 else ""
    change = points(mean(values), mean(bases)) if bases and runs is not base else ""
    return join([percent(mean(values)), spread, element("span", change, class_="difference") if change else ""])


def _known(name: str, runs: Sequence[ComparedRun]) -> list[float]:
    return [value for run in runs if (value := run.result.get(name)) is not None]
