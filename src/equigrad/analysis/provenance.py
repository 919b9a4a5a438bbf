"""How the numbers of a page were made: settings, versions and commands of its runs."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from equigrad.analysis.comparison import ComparedRun, Comparison
from equigrad.analysis.findings import run_label
from equigrad.analysis.markup import Html, element, join, table

_NOT_SETTINGS = ("settings", "set", "versions", "starts", "command", "step", "time")  # of recipe.json
_ABSENT = "–"


def settings_tables(comparison: Comparison) -> Html:
    """Settings that differ between the runs, all settings of each run, and versions."""
    settings = [run_settings(run) for run in comparison.runs]
    parts = [_difference_table(comparison, settings)] if len(settings) > 1 else []
    parts += [
        element("details", element("summary", f"All settings of {run.name}"), _settings_table(run, found))
        for run, found in zip(comparison.runs, settings, strict=True)
    ]
    return join([*parts, _run_table(comparison), _version_table(comparison)])


def command_lists(comparison: Comparison, report_command: Sequence[str]) -> Html:
    """Commands that made each run and this page."""
    parts = []
    for run in comparison.runs:
        lines = [shlex.join(command) for command in run.history.commands if command]
        parts += [element("h3", run_label(comparison, run)), element("pre", "\n".join(lines) or "not recorded")]
    return join([*parts, element("h3", "This page"), element("pre", shlex.join(report_command))])


def run_settings(run: ComparedRun) -> dict[str, str]:
    """The settings of a run by dotted name."""
    recipe = run.history.recipe
    others = {name: value for name, value in recipe.items() if name not in _NOT_SETTINGS}
    return _flat({**others, **recipe.get("settings", {})})


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings by dotted name, as in `--set`."""
    found: dict[str, str] = {}
    for name, item in value.items():
        if isinstance(item, dict) and item:
            found |= _flat(item, f"{prefix}{name}.")
        else:
            found[prefix + name] = item if isinstance(item, str) else json.dumps(item)
    return found


def _difference_table(comparison: Comparison, settings: Sequence[Mapping[str, str]]) -> Html:
    names = list(dict.fromkeys(name for found in settings for name in found))
    rows = [[name, *(found.get(name, _ABSENT) for found in settings)] for name in names]
    different = [row for row in rows if len(set(row[1:])) > 1]
    if not different:
        return element("p", "All settings are the same in all runs.")
    header = ["setting", *(run_label(comparison, run) for run in comparison.runs)]
    return table("Settings that differ between the runs", header, different, "settings")


def _settings_table(run: ComparedRun, settings: Mapping[str, str]) -> Html:
    return table(f"Settings of {run.name}", ["setting", "value"], list(settings.items()), "settings")


def _run_table(comparison: Comparison) -> Html:
    rows = []
    for run in comparison.runs:
        last = run.history.metrics[-1] if run.history.metrics else {}
        seconds = last.get("seconds_per_step")
        pace = f"{1000 * seconds:,.1f} ms" if isinstance(seconds, int | float) else _ABSENT
        loss = last.get("loss")
        shown_loss = f"{loss:.4g}" if isinstance(loss, int | float) else _ABSENT
        facts = [f"{int(last['step']):,}" if last else _ABSENT, shown_loss, pace]
        started = str(run.history.recipe.get("time", _ABSENT))
        rows.append([run_label(comparison, run), *facts, started, str(run.history.folder)])
    header = ["run", "steps", "last loss", "time of a step", "started", "folder"]
    return table("Runs", header, rows, "settings")


def _version_table(comparison: Comparison) -> Html:
    found = [run.history.recipe.get("versions", {}) for run in comparison.runs]
    packages = list(dict.fromkeys(package for versions in found for package in versions))
    rows = [[package, *(str(versions.get(package, _ABSENT)) for versions in found)] for package in packages]
    return table("Versions", ["package", *(run_label(comparison, run) for run in comparison.runs)], rows, "settings")
