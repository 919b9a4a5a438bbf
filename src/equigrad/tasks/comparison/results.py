"""What a finished comparison leaves in its folder, besides its rows.

table.md, table.csv     a row for each method: mean, spread, difference from the first method and its interval
categories.csv          a row for each category
differences.png         the differences with their intervals
report.html             all of it on one page
"""

from collections.abc import Mapping, Sequence

from equigrad.analysis.advice import advice
from equigrad.analysis.compared_page import write_comparison_page
from equigrad.analysis.compared_tables import (
    as_markdown,
    as_text,
    category_rows,
    difference_table,
    method_rows,
    result_table,
)
from equigrad.analysis.plots import plot_differences
from equigrad.evaluation.tables import write_table
from equigrad.files import write_atomically
from equigrad.settings import list_settings
from equigrad.tasks.comparison.rows import ComparisonFolder, Method


def write_results(
    folder: ComparisonFolder, methods: Mapping[str, Method], num_seeds: int, data: str, command: Sequence[str]
) -> str:
    """Write tables, figure and page; returns the tables and the advice as text.

    Args:
        folder: with all rows.
        methods: the compared ones.
        num_seeds: number of seeds of each.
        data: its name.
        command: that made the comparison.
    """
    compared = folder.load(list(methods), num_seeds)
    tables = [table for table in (result_table(compared), difference_table(compared)) if table]
    sentence, note = advice(compared), _note(folder, data, num_seeds)
    write_table(method_rows(compared), folder.folder / "table.csv")
    write_table(category_rows(compared), folder.folder / "categories.csv")
    markdown = "\n\n".join([*map(as_markdown, tables), sentence, note]) + "\n"
    write_atomically(folder.folder / "table.md", markdown.encode(errors="backslashreplace"))
    figure = folder.folder / "differences.png" if len(methods) > 1 else None
    if figure is not None:
        plot_differences(compared, figure)
    write_comparison_page(
        compared,
        folder.folder / "report.html",
        data=data,
        figure=figure,
        settings={name: {s.path: s.value for s in list_settings(method.recipe)} for name, method in methods.items()},
        notes=[note],
        command=command,
    )
    return "\n\n".join([*map(as_text, tables), sentence])


def _note(folder: ComparisonFolder, data: str, num_seeds: int) -> str:
    """What the numbers are, and how far they reach."""
    how = "last layers on frozen features" if folder.last_layer is not None else "whole models"
    spread = "one seed" if num_seeds == 1 else f"mean ± standard deviation over {num_seeds} seeds"
    return (
        f"Measured on {data}: {how}, {spread}. Differences have 95 % intervals that hold for all of them at once, by a "
        "bootstrap over categories and seeds. They are about this data, these settings and this length of training."
    )
