"""Results of runs that are elsewhere, read from tables that were written there."""

import math
from collections.abc import Iterable
from pathlib import Path

from equigrad.data.text_files import csv_rows
from equigrad.errors import UsageError

_OURS = "ours_"
_MAX_PERCENT = 100.0


def written_results(folder: Path, names: Iterable[str]) -> dict[str, dict[str, float]]:
    """Metrics of each run as fractions, by the name of its folder, from the CSV files of tables.

    A run has the same name wherever its settings and its seed are the same. Tables that the folder lacks have none.
    """
    if not folder.is_dir():
        raise UsageError(f"--merge {folder}: no such folder; it takes one with tables that `equigrad table` wrote")
    names = list(names)
    files = [file for name in names if (file := folder / f"{name}.csv").is_file()]
    if not files:
        raise UsageError(f"--merge {folder}: it has no {names[0]}.csv{' or any other table' if len(names) > 1 else ''}")
    return {run: metrics for file in files for run, metrics in _results(file).items()}


def _results(file: Path) -> dict[str, dict[str, float]]:
    rows = csv_rows(file)
    _, header = next(rows, (0, []))
    if not {"run", "seed"}.issubset(header):
        raise ValueError(f"{file}: expected a CSV file of `equigrad table` with columns run and seed")
    found = {}
    for line, cells in rows:
        record = dict(zip(header, cells, strict=False))
        if record.get("seed"):
            metrics = {key.removeprefix(_OURS): text for key, text in record.items() if key.startswith(_OURS) and text}
            place = f"{file}, line {line}"
            found[f"{record['run']}_{record['seed']}"] = {
                key: _fraction(text, f"{place}, {_OURS}{key}") for key, text in metrics.items()
            }
    return found


def _fraction(text: str, place: str) -> float:
    try:
        percent = float(text)
    except ValueError:
        percent = math.nan
    if not 0 <= percent <= _MAX_PERCENT:
        raise ValueError(f"{place}: expected a number from 0 to 100, got {text[:40]!r}")
    return percent / _MAX_PERCENT
