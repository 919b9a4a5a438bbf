"""One HTML page of a table of the paper. It contains all it needs, runs no script and makes no requests."""

import shlex
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

from equigrad.analysis.compared_tables import mean_and_spread
from equigrad.analysis.markup import Html, element, join, listing, markup, table
from equigrad.analysis.paper_table import ResultRow, agreement, columns_of, variants_of
from equigrad.files import write_atomically


def write_table_page(
    file: Path, title: str, rows: Sequence[ResultRow], *, notes: Sequence[str], command: Sequence[str]
) -> None:
    """Write the page of a table.

    Args:
        file: where.
        title: name of the table and its scale.
        rows: of all variants.
        notes: what the numbers mean.
        command: that made them.
    """
    values: dict[str, object] = {
        "title": title,
        "subtitle": "Published numbers are grey, ours beside them, in %: mean ± standard deviation over seeds.",
        "tables": join(_variant(variant, members) for variant, members in variants_of(rows).items()),
        "notes": listing(notes, "notes"),
        "command": shlex.join(command),
        "css": Html(_resource("report.css")),
    }
    page = Template(_resource("paper_table.html")).substitute({key: markup(value) for key, value in values.items()})
    write_atomically(file, page.encode())


def _variant(variant: str, rows: Sequence[ResultRow]) -> Html:
    columns = columns_of(rows)
    cells = [[row.label, *(_cell(row, column) for column in columns)] for row in rows]
    ranks = ["rank agreement (tau)", *(str(agreement(rows, column)) for column in columns)]
    return table(variant or "All rows", ["row", *columns], [*cells, ranks], "results")


def _cell(row: ResultRow, column: str) -> Html:
    published = f"{row.published[column]:.1f}" if column in row.published else "–"
    ours = mean_and_spread(row.mean(column), row.spread(column))
    return join([element("span", published, class_="published"), " ", element("span", ours, class_="ours")])


def _resource(name: str) -> str:
    return files("equigrad.analysis").joinpath(name).read_text(encoding="utf-8")
