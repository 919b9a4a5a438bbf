"""One HTML page of a table of the paper. It contains all it needs, runs no script and makes no requests."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from equigrad.analysis.compared_tables import mean_and_spread
from equigrad.analysis.markup import Html, element, join, listing, resource, table, write_page
from equigrad.analysis.paper_table import ResultRow, agreement, columns_of, variants_of


def write_table_page(
    file: Path, title: str, rows: Sequence[ResultRow], *, notes: Sequence[str], command: Sequence[str]
) -> None:
    """Write the page of a table.

    Args:
        file: where.
        title: name of the table and its scale.
        rows: rows of all variants.
        notes: what the numbers mean.
        command: that made them.
    """
    values: dict[str, object] = {
        "title": title,
        "subtitle": "Published numbers are grey, ours beside them, in %: mean ± standard deviation over seeds.",
        "tables": join(_variant(variant, members) for variant, members in variants_of(rows).items()),
        "notes": listing(notes, "notes"),
        "command": shlex.join(command),
        "css": Html(resource("report/page.css")),
    }
    write_page(file, "paper_table.html", values)


def _variant(variant: str, rows: Sequence[ResultRow]) -> Html:
    columns = columns_of(rows)
    cells = [[row.label, len(row.results), *(_cell(row, column) for column in columns)] for row in rows]
    ranks = ["rank agreement (tau)", "", *(str(agreement(rows, column)) for column in columns)]
    return table(variant or "All rows", ["row", "seeds", *columns], [*cells, ranks], "results")


def _cell(row: ResultRow, column: str) -> Html:
    published = f"{row.published[column]:.1f}" if column in row.published else "–"
    ours = mean_and_spread(row.mean(column), row.spread(column))
    return join([element("span", published, class_="published"), " ", element("span", ours, class_="ours")])
