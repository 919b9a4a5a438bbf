"""One HTML page that compares runs. It contains all it needs and makes no requests."""

import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from equigrad.analysis import findings, provenance
from equigrad.analysis.comparison import ComparedRun, Comparison, compare, evenly_chosen
from equigrad.analysis.history import Floats, Ints, RunHistory
from equigrad.analysis.markup import Html, join, listing, markup, script_data
from equigrad.files import write_atomically

_MAX_SLIDER_STEPS = 16
_MAX_SLIDER_VALUES = 120_000  # of all runs, categories and steps: keeps the page small
_MAX_CURVE_STEPS = 200
_MAX_CHECKS = 12


def write_report(
    folders: Sequence[str | Path],
    file: str | Path,
    *,
    names: Sequence[str] | None = None,
    title: str | None = None,
    statistics_path: str | None = None,
    command: Sequence[str] | None = None,
) -> Path:
    """Write a page that compares runs: results, gradient ratios, every category, settings and commands.

    Args:
        folders: run folders; differences are shown from the first.
        file: where to write the page.
        names: of the runs; None for the names of the folders.
        title: of the page; None for one made of the names.
        statistics_path: which statistics to show of models with several; None for the first.
        command: the command shown on the page as the one that made it; None for `equigrad report` with the folders.

    Returns:
        The file.

    Raises:
        ValueError: a folder is not a run, a file is broken, or the runs cannot be compared.
    """
    if names is not None and len(names) != len(folders):
        raise ValueError(f"names must be {len(folders)}, one for each run, got {len(names)}")
    given: Sequence[str | None] = names if names is not None else [None] * len(folders)
    runs = [RunHistory.load(folder, name) for folder, name in zip(folders, given, strict=True)]
    for lost in filter(None, (run.lost_lines for run in runs)):
        print(f"warning: {lost}", file=sys.stderr)
    shown_command = command if command is not None else ["equigrad", "report", *map(str, folders)]
    return write_comparison(compare(runs, statistics_path), file, title=title, command=shown_command)


def write_comparison(
    comparison: Comparison, file: str | Path, *, title: str | None = None, command: Sequence[str]
) -> Path:
    """Write the page of a comparison; see `write_report`."""
    page = _page(comparison, title or _title(comparison), command)
    # A lone surrogate is possible in JSON but not in UTF-8; it becomes a question mark.
    write_atomically(Path(file), page.encode("utf-8", errors="replace"))
    return Path(file)


def _page(comparison: Comparison, title: str, command: Sequence[str]) -> str:
    from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

    watched = bool(comparison.watched)
    values: dict[str, object] = {
        "title": title,
        "subtitle": _subtitle(comparison),
        "no_statistics": "" if watched else "hidden",
        "lead": findings.lead(comparison),
        "results": findings.result_tables(comparison),
        "notes": listing(_notes(comparison), "notes"),
        "ratios_described": findings.describe_ratios(comparison) if watched else "",
        "ratio_caption": _ratio_caption(comparison),
        "ratio_table": findings.ratio_table(comparison) if watched else "",
        "training_table": findings.training_table(comparison) if watched else "",
        "not_described": "" if comparison.described else "hidden",
        "starving_text": _starving_text(comparison),
        "won_table": findings.won_table(comparison) if any(run.won is not None for run in comparison.runs) else "",
        "starving": findings.starving_lists(comparison),
        "categories_text": _categories_text(comparison),
        "settings": provenance.settings_tables(comparison),
        "commands": provenance.command_lists(comparison, command),
        "data": script_data(_data(comparison)),
        "css": Html(_resource("report.css")),
        "script": Html(_resource("report.js")),
        "plotly": Html(get_plotlyjs()),
    }
    return Template(_resource("report.html")).substitute({name: markup(value) for name, value in values.items()})


def _resource(name: str) -> str:
    return files("equigrad.analysis").joinpath(name).read_text(encoding="utf-8")


def _title(comparison: Comparison) -> str:
    names = [run.name for run in comparison.runs]
    if len(names) == 1:
        return names[0]
    return f"{names[0]} and {names[1]}" if len(names) == 2 else f"{len(names)} runs compared"


def _subtitle(comparison: Comparison) -> str:
    sizes = ", ".join(f"{size:,} {group}" for group, size in comparison.categories.group_sizes().items())
    return f"{len(comparison.categories):,} categories: {sizes}"


def _notes(comparison: Comparison) -> list[str]:
    """Notes without which the numbers could be misread."""
    notes = []
    for run in comparison.runs:
        if run.statistics is None and run.history.recipe:  # without a recipe there are only detections of some tool
            notes.append(f"{run.name} keeps no gradient statistics: its loss does not gather them.")
        elif len(run.history.statistics) > 1:
            notes.append(f"{run.name} keeps {len(run.history.statistics)} statistics; those of {run.path} are shown.")
        if checks := run.history.checks:
            shown = [checks[index] for index in evenly_chosen(len(checks), _MAX_CHECKS)]
            values = ", ".join(f"{100 * value:.1f} at step {step:,}" for step, _, value in shown)
            part = f"While {run.name} was trained, a part of the test set was evaluated: {checks[0][1]} {values}."
            notes.append(f"{part} The tables are of the whole test set.")
        if lost := run.history.lost_lines:  # reads the log
            notes.append(f"{lost}.")
        if run.history.evaluation is None:
            notes.append(f"{run.name} has not been evaluated.")
    if comparison.categories.counts is None:
        notes.append("Without an evaluation the counts are unknown: categories are sorted by positive gradient.")
    elif _counts_differ(comparison):
        notes.append(f"The runs had different training data; counts and groups are those of {comparison.runs[0].name}.")
    return notes


def _counts_differ(comparison: Comparison) -> bool:
    evaluations = [run.history.evaluation for run in comparison.runs]
    counts = {tuple(c.count for c in e.categories) for e in evaluations if e is not None and e.categories}
    return len(counts) > 1


def _starving_text(comparison: Comparison) -> str:
    if any(run.won is not None for run in comparison.runs):
        return (
            "A category wins a training sample of its own if its logit is the highest when the sample comes, before "
            f"the step. It is starving if it wins less than {100 * findings.STARVING:g} % of its last samples. For "
            "every loss that predicts how well it is recognised in the test; with a softmax the ratio goes to 1, "
            "whether a category is learnt or not."
        )
    times = f"{1 / findings.STARVING_RATIO:g}"
    return (
        f"A category is starving if its gradient ratio is below {findings.STARVING_RATIO} at the end of the run, that "
        f"is, if it received more than {times} times as much negative as positive gradient."
    )


def _ratio_caption(comparison: Comparison) -> Html:
    by = "training count" if comparison.categories.counts is not None else "positive gradient"
    text = f"Dots: one category each, sorted by {by}, most first. Lines: running median. Dotted: balance."
    return join([text, " Drag to zoom, double-click to return."])


def _categories_text(comparison: Comparison) -> str:
    shown = ["own training samples won, in %"] if any(run.won is not None for run in comparison.runs) else []
    shown += ["gradient ratio at the end"] if comparison.watched else []
    if comparison.metric_name:
        difference = f" and percentage points against {comparison.runs[0].name}" if len(comparison.runs) > 1 else ""
        shown.append(f"{comparison.metric_name} in %{difference}")
    text = ", ".join(shown)
    return f"{text[:1].upper()}{text[1:]}. Click a heading to sort."


def _data(comparison: Comparison) -> dict[str, Any]:
    """Data for the script of the page."""
    categories = comparison.categories
    steps = _slider_steps(comparison)
    return {
        "names": categories.names,
        "counts": None if categories.counts is None else categories.counts.tolist(),
        "groupNames": categories.group_names,
        "groups": categories.groups.tolist(),
        "metric": comparison.metric_name,
        "starving": findings.STARVING,
        "starvingRatio": findings.STARVING_RATIO,
        "steps": steps.tolist(),
        "runs": [_run_data(comparison, run, steps) for run in comparison.runs],
    }


def _slider_steps(comparison: Comparison) -> Ints:
    """Evenly chosen steps at which some run has a snapshot with gradients."""
    reached = [
        run.statistics.steps[np.isfinite(run.statistics.ratio).any(axis=1)]
        for run in comparison.watched
        if run.statistics is not None
    ]
    steps = np.unique(np.concatenate(reached)) if reached else np.empty(0, dtype=np.int64)
    if len(steps) == 0:
        return steps
    affordable = _MAX_SLIDER_VALUES // (len(comparison.watched) * len(comparison.categories))
    return steps[evenly_chosen(len(steps), min(_MAX_SLIDER_STEPS, max(affordable, 2)))]


def _run_data(comparison: Comparison, run: ComparedRun, steps: Ints) -> dict[str, Any]:
    found: dict[str, Any] = {"name": run.name, "metric": None, "ratio": None, "final": None, "won": None}
    if run.won is not None:
        found["won"] = _rounded(run.won, digits=3)
    if run.metric is not None:
        found["metric"] = _rounded(run.metric, digits=6)  # exact enough to subtract
    if run.statistics is not None:
        # At each step of the slider, the last snapshot up to then.
        rows = np.searchsorted(run.statistics.steps, steps, side="right") - 1
        ratio = run.statistics.ratio
        found["ratio"] = [None if row < 0 else _rounded(ratio[row], digits=3) for row in rows]
        found["final"] = _rounded(ratio[-1], digits=3)
        chosen = evenly_chosen(len(run.statistics.steps), _MAX_CURVE_STEPS)
        found["curveSteps"] = run.statistics.steps[chosen].tolist()
        found["curves"] = [_rounded(curve, digits=4) for curve in comparison.group_ratios(run)[chosen].T]
    return found


def _rounded(values: Floats, digits: int) -> list[float | None]:
    """Values with few significant digits, to keep the page small; None where unknown."""
    return [_shortest(float(f"{value:.{digits}g}")) if np.isfinite(value) else None for value in values]


def _shortest(value: float) -> float:
    return int(value) if value.is_integer() else value
