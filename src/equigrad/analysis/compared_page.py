"""One HTML page about a comparison of methods. It contains all it needs, runs no script and makes no requests."""

import base64
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from equigrad.analysis.advice import advice
from equigrad.analysis.compared_methods import ComparedMethods
from equigrad.analysis.compared_tables import category_rows, difference_and_margin, mean_and_spread
from equigrad.analysis.markup import Html, element, join, listing, resource, table, write_page
from equigrad.analysis.rounding import percent


def write_comparison_page(
    compared: ComparedMethods,
    file: Path,
    *,
    data: str,
    figure: Path | None,
    settings: Mapping[str, Mapping[str, object]],
    notes: Sequence[str],
    command: Sequence[str],
) -> None:
    """Write the page of a comparison.

    Args:
        compared: the results.
        file: where to write the page.
        data: what was compared on.
        figure: PNG of the differences; None for a single method.
        settings: settings of each method.
        notes: what the numbers mean.
        command: that made the comparison.
    """
    values: dict[str, object] = {
        "title": f"{len(compared.methods)} methods on {data}",
        "subtitle": _subtitle(compared),
        "advice": advice(compared),
        "results": _results(compared),
        "figure": "" if figure is None else _figure(figure),
        "notes": listing(notes, "notes"),
        "categories_text": f"Mean over seeds of each category, in %; {len(compared.categories):,} categories",
        "categories": _categories(compared),
        "settings": join(_settings(name, values) for name, values in settings.items()),
        "command": shlex.join(command),
        "css": Html(resource("report/page.css")),
    }
    write_page(file, "compared.html", values)


def _subtitle(compared: ComparedMethods) -> str:
    seeds = f"{compared.num_seeds} seed{'' if compared.num_seeds == 1 else 's'}"
    task = compared.task.replace("_", " ")
    return f"{task}; {len(compared.categories):,} categories, {compared.num_test:,} test samples, {seeds}"


def _results(compared: ComparedMethods) -> Html:
    differences = compared.differences
    rows: list[list[object]] = []
    for index, name in enumerate(compared.methods):
        cells: list[object] = [name]
        for column in range(len(compared.columns)):
            result = mean_and_spread(compared.means[index, column], compared.spreads[index, column])
            change = difference_and_margin(differences.estimate[index, column], differences.margin[index, column])
            sign = (
                "up" if differences.is_above[index, column] else "down" if differences.is_below[index, column] else ""
            )
            is_shown = index > 0 and np.isfinite(differences.estimate[index, column])
            cells.append(join([result, " ", element("span", change, class_=f"difference {sign}") if is_shown else ""]))
        rows.append(cells)
    caption = f"% and standard deviation over seeds; small: points from {compared.methods[0]} and their interval"
    return table(caption, ["method", *(column.name for column in compared.columns)], rows, "results")


def _figure(file: Path) -> Html:
    source = f"data:image/png;base64,{base64.b64encode(file.read_bytes()).decode()}"
    return element("figure", element("img", src=source, alt="The differences of the table with their intervals"))


def _categories(compared: ComparedMethods) -> Html:
    header = ["category", "training", "group", "test", *compared.methods]
    rows = (
        [
            *(
                row["name"],
                f"{row['count']:,}",
                row["group"],
                "–" if row["num_test"] is None else f"{row['num_test']:,}",
            ),
            *(percent(row[method] / 100) for method in compared.methods),
        ]
        for row in category_rows(compared)
    )
    return table(f"{compared.columns[1].of_category} in %", header, rows)


def _settings(name: str, values: Mapping[str, object]) -> Html:
    rows = [[path, str(value)] for path, value in values.items()]
    return element(
        "details", element("summary", name), table(f"Settings of {name}", ["setting", "value"], rows, "settings")
    )
