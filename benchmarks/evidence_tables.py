"""Tables of evidence pages: methods beside what each is compared with, as CSV, and as Markdown made of that CSV.

A row folder is `FOLDER/rows/METHOD_SEED` with an `evaluation.json`, as `equigrad compare` leaves it. Differences are
paired over categories and seeds, with 95 % intervals (`equigrad.analysis.paired_differences`).
"""

import csv
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from equigrad.analysis.compared_methods import CATEGORY_MEAN
from equigrad.analysis.compared_tables import as_markdown, difference_and_margin
from equigrad.analysis.evaluation_file import Evaluation
from equigrad.files import write_atomically
from equigrad.tasks.comparison.rows import ComparisonFolder

Record = dict[str, str]
RATIO = "ratio.json"  # median gradient ratio of the rarest group, beside an evaluation
MEASURES = ("mean", "std", "difference", "margin")


@dataclass(frozen=True)
class Table:
    """A table of a page.

    Args:
        name: in the CSV file and in the page.
        task: "classification" or "detection".
        against: the methods, each with the one it is compared with; itself for a baseline.
        data: folder of the comparison that has the rows; none is that of the table's name.
    """

    name: str
    task: str
    against: Mapping[str, str]
    data: str = ""


def measure_row(folder: Path, method: str, seed: int, measure: Callable[[], tuple[Evaluation, float | None]]) -> None:
    """Measure a row and keep it, unless it is there."""
    row = ComparisonFolder(folder, "", None).row(_file_name(method), seed)
    if (row / "evaluation.json").exists():
        return
    row.mkdir(parents=True, exist_ok=True)
    evaluation, ratio = measure()
    if ratio is not None:
        write_atomically(row / RATIO, json.dumps(ratio).encode())
    evaluation.save(row)


def finished_seeds(table: Table, folder: Path, most: int) -> int:
    """Seeds that all methods of a table have."""
    rows = ComparisonFolder(folder, table.task, None)
    seeds = range(most)
    is_finished = (all(rows.is_finished(_file_name(method), seed) for method in table.against) for seed in seeds)
    return next((seed for seed, finished in enumerate(is_finished) if not finished), most)


def records(table: Table, folder: Path, num_seeds: int) -> list[dict[str, str | float]]:
    """A record for each method and column of a table, in per cent; no interval with one seed."""
    methods = list(table.against)
    rows = ComparisonFolder(folder, table.task, None)
    compared = rows.load([_file_name(method) for method in methods], num_seeds)
    differences = {name: compared.differences_from(methods.index(name)) for name in set(table.against.values())}
    found: list[dict[str, str | float]] = []
    for index, (method, other) in enumerate(table.against.items()):
        facts = {"table": table.name, "method": method, "against": "" if other == method else other, "seeds": num_seeds}
        for column, heading in enumerate(compared.columns):
            if column == 0 and np.allclose(compared.means[:, 0], compared.means[:, CATEGORY_MEAN]):
                continue  # a balanced test set
            numbers = [compared.means[index, column], compared.spreads[index, column]]
            if other != method:
                one = differences[other]
                numbers += [one.estimate[index, column], one.margin[index, column]]
            if np.isfinite(numbers[0]):
                found.append({**facts, "column": heading.name, **_rounded(numbers)})
        ratios = [rows.row(_file_name(method), seed) / RATIO for seed in range(num_seeds)]
        if all(file.exists() for file in ratios):
            values = [json.loads(file.read_text()) for file in ratios]
            spread = np.std(values, ddof=1) if num_seeds > 1 else np.nan
            found.append({**facts, "column": "G", **_rounded([np.mean(values), spread])})
    return found


def _rounded(numbers: Sequence[float]) -> dict[str, float]:
    padded = [*numbers, *[np.nan] * (len(MEASURES) - len(numbers))]
    return {name: round(float(value), 3) for name, value in zip(MEASURES, padded, strict=True)}


def read_csv(file: Path) -> dict[str, list[Record]]:
    """Records by table."""
    tables: dict[str, list[Record]] = {}
    with file.open(encoding="utf-8", newline="") as stream:
        for record in csv.DictReader(stream):
            tables.setdefault(record["table"], []).append(record)
    return tables


def markdown(found: Sequence[Record]) -> str:
    """The table of these records: means, and in brackets the difference with its interval, bold if that excludes 0."""
    columns = list(dict.fromkeys(record["column"] for record in found))
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for record in found:
        rows.setdefault((record["method"], record["against"] or "–"), {})[record["column"]] = _cell(record)
    lines = [[*names, *(cells.get(column, "–") for column in columns)] for names, cells in rows.items()]
    return as_markdown([["method", "against", *columns], *lines])


def _cell(record: Record) -> str:
    mean, _, difference, margin = (float(record[name] or "nan") for name in MEASURES)
    if record["column"] == "G":
        return f"{mean:.2f}"
    if np.isnan(difference):
        return f"{mean:.1f}"
    text = difference_and_margin(difference, margin)  # nothing is above a margin that is nan
    return f"{mean:.1f} (**{text}**)" if abs(difference) > margin else f"{mean:.1f} ({text})"


def fill_page(page: Path, tables: Mapping[str, Sequence[Record]]) -> None:
    """Write each table between its marks in the page, `<!-- table: NAME -->` and `<!-- end -->`."""
    text = page.read_text(encoding="utf-8")
    for name, found in tables.items():
        marks = re.compile(rf"(<!-- table: {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not marks.search(text):
            raise ValueError(f"{page}: no line <!-- table: {name} --> for this table")
        filled = f"\n{markdown(found)}\n\n"
        text = marks.sub(lambda match, filled=filled: match[1] + filled + match[2], text)  # type: ignore[misc]
    write_atomically(page, text.encode())


def tables_in(page: Path) -> dict[str, str]:
    """The Markdown of each marked table of a page that has been filled."""
    marked = re.findall(r"<!-- table: (.*?) -->\n(.*?)<!-- end -->", page.read_text(encoding="utf-8"), re.DOTALL)
    return {name: text.strip() for name, text in marked if text.strip()}


def _file_name(method: str) -> str:
    return re.sub(r"[^A-Za-z0-9.+-]+", "_", method)
