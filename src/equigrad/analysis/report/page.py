"""The page that compares runs, put together from its parts."""

import sys
from collections.abc import Sequence
from pathlib import Path

from equigrad.analysis import findings, provenance
from equigrad.analysis.comparison import Comparison, compare, evenly_chosen
from equigrad.analysis.history import RunHistory
from equigrad.analysis.markup import Html, listing, resource, script_data, write_page
from equigrad.analysis.report.calibration import calibration_table
from equigrad.analysis.report.confusion import confusion_tables
from equigrad.analysis.report.examples import Examples, FindExamples, changed_categories, example_section
from equigrad.analysis.report.predictions import RunPredictions, read_test_predictions
from equigrad.analysis.report.script_data import script_data_of
from equigrad.analysis.report.seeds import seed_table
from equigrad.analysis.rounding import percent
from equigrad.run_files import unfinished_note

_MAX_CHECKS = 12
_SCRIPTS = ("charts.js", "table.js", "page.js")


def write_report(
    folders: Sequence[str | Path],
    file: str | Path,
    *,
    names: Sequence[str] | None = None,
    title: str | None = None,
    command: Sequence[str] | None = None,
    find_examples: FindExamples | None = None,
) -> Path:
    """Write a page that compares runs: results, gradient ratios, every category, settings and commands.

    Args:
        folders: run folders; differences are shown from the first.
        file: where to write the page.
        names: names of the runs; None for the names of the folders.
        title: title of the page; None for one made of the names.
        command: the command shown on the page as the one that made it; None for `equigrad report` with the folders.
        find_examples: finds test images of categories that changed; None shows none.

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
    comparison = compare(runs)
    return write_comparison(comparison, file, title=title, command=shown_command, find_examples=find_examples)


def write_comparison(
    comparison: Comparison,
    file: str | Path,
    *,
    title: str | None = None,
    command: Sequence[str],
    find_examples: FindExamples | None = None,
) -> Path:
    """Write the page of a comparison; see `write_report`."""
    predictions = [read_test_predictions(run.history.folder, comparison.categories) for run in comparison.runs]
    changed = changed_categories(comparison) if find_examples is not None else None
    examples = find_examples(comparison, changed) if find_examples is not None and changed is not None else Examples({})
    fields = _fields(comparison, predictions, title or _title(comparison), command)
    section = example_section(comparison, changed, examples)
    fields |= {"examples": section, **_hidden("no_examples", bool(section))}
    write_page(Path(file), "report/page.html", fields)
    return Path(file)


def _fields(
    comparison: Comparison, predictions: Sequence[RunPredictions | None], title: str, command: Sequence[str]
) -> dict[str, object]:
    data = script_data_of(comparison, predictions)
    has = {field: any(field in run for run in data["runs"]) for field in ("won", "ratio", "reliability", "loss")}
    is_confused = any(found is not None for found in predictions)
    return {
        "title": title,
        "subtitle": _subtitle(comparison),
        **_hidden("no_won", has["won"]),
        **_hidden("no_statistics", has["ratio"]),
        **_hidden("no_reliability", has["reliability"]),
        **_hidden("no_course", has["loss"]),
        **_hidden("no_confusion", is_confused),
        **_hidden("not_described", bool(comparison.described)),
        "lead": findings.lead(comparison),
        "results": findings.result_tables(comparison),
        "seeds": seed_table(comparison),
        "notes": listing(_notes(comparison), "notes"),
        "won_described": findings.describe_won(comparison) if has["won"] else "",
        "won_caption": _category_caption(comparison),
        "won_table": findings.won_table(comparison) if has["won"] else "",
        "starving_text": _starving_text(comparison),
        "starving": findings.starving_lists(comparison),
        "confusion": confusion_tables(comparison, predictions) if is_confused else "",
        "calibration": calibration_table(comparison, predictions) if has["reliability"] else "",
        "course_caption": "As logged: the loss is a mean over the steps since the line before.",
        "ratio_open": "" if has["won"] else "open",
        "ratios_described": findings.describe_ratios(comparison) if has["ratio"] else "",
        "ratio_caption": f"{_category_caption(comparison)} Dotted: balance.",
        "ratio_table": findings.ratio_table(comparison) if has["ratio"] else "",
        "training_table": findings.training_table(comparison) if has["ratio"] else "",
        "categories_text": _categories_text(comparison),
        "settings": provenance.settings_tables(comparison),
        "commands": provenance.command_lists(comparison, command),
        "data": script_data(data),
        "css": Html(resource("report/page.css")),
        "script": Html("\n".join(resource(f"report/{name}") for name in _SCRIPTS)),
    }


def _hidden(field: str, is_shown: bool) -> dict[str, str]:
    """An attribute of a section that has something to show, or not."""
    return {field: "" if is_shown else "hidden"}


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
            values = ", ".join(f"{percent(value)} at step {step:,}" for step, _, value in shown)
            part = f"While {run.name} was trained, a part of the test set was evaluated: {checks[0][1]} {values}."
            notes.append(f"{part} The tables are of the whole test set.")
        if lost := run.history.lost_lines:  # reads the log
            notes.append(f"{lost}.")
        if run.history.evaluation is None:
            notes.append(unfinished_note(run.history.folder) or f"{run.name} has not been evaluated.")
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
            f"A category is starving if it wins less than {100 * findings.STARVING:g} % of its own last training "
            "samples at the end of the run."
        )
    times = f"{1 / findings.STARVING_RATIO:g}"
    return (
        f"A category is starving if its gradient ratio is below {findings.STARVING_RATIO} at the end of the run, that "
        f"is, if it received more than {times} times as much negative as positive gradient."
    )


def _category_caption(comparison: Comparison) -> str:
    by = "training count" if comparison.categories.counts is not None else "positive gradient"
    return f"Dots: one category each, sorted by {by}, most first. Lines: running median."


def _categories_text(comparison: Comparison) -> str:
    shown = ["own training samples won, in %"] if any(run.won is not None for run in comparison.runs) else []
    shown += ["gradient ratio at the end"] if comparison.watched else []
    if comparison.metric_name:
        difference = f" and percentage points against {comparison.runs[0].name}" if len(comparison.runs) > 1 else ""
        shown.append(f"{comparison.metric_name} in %{difference}")
    text = ", ".join(shown)
    return f"{text[:1].upper()}{text[1:]}. Click a heading to sort."
