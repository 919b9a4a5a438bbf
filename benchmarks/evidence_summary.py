"""The table and the figure at the top of an evidence page: chosen differences of its CSV file.

    python benchmarks/evidence_summary.py docs/evidence/confounds.md docs/evidence/class_counts.md

Writes the table between `<!-- summary -->` and `<!-- end -->` in the page, and `figures/PAGE.png` in the folder above.
"""

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evidence_tables import Record, read_csv

from equigrad.analysis.compared_tables import as_markdown, difference_and_margin
from equigrad.analysis.comparison import COLOURS
from equigrad.analysis.plots import new_figure, save_figure, style
from equigrad.files import write_atomically

# Names of columns: groups by images (classification) or by images with the category (detection).
COLUMNS = {
    "category mean": ("category mean", "category mean (AP)"),
    "most frequent": ("many", "frequent"),
    "rarest": ("few", "rare"),
}


@dataclass(frozen=True)
class Chosen:
    """Methods of a table that a page puts at its top, under a name for what they show."""

    shows: str
    table: str
    methods: tuple[str, ...]


SUMMARIES = {
    "confounds": [
        Chosen("weights alone", "objectness", ("Sigmoid-EQL without objectness",)),
        Chosen("weights alone, visible objects", "objectness_visible", ("Sigmoid-EQL without objectness",)),
        Chosen("branch alone", "objectness", ("BCE, objectness",)),
        Chosen("branch alone, visible objects", "objectness_visible", ("BCE, objectness",)),
        Chosen("optimiser", "optimizer", ("EFL, SGD", "EFL, AdamW")),
        Chosen("sampler", "sampler", ("CE, RFS",)),
        Chosen("sampler", "sampler_rois", ("BCE, RFS",)),
        Chosen("sampler", "sampler_anchors", ("FL, RFS",)),
        Chosen("loss with the sampler", "loss_with_sampler", ("Softmax-EQL, RFS",)),
        Chosen("loss with the sampler", "sampler_rois", ("Sigmoid-EQL without objectness, RFS",)),
        Chosen("loss with the sampler", "sampler_anchors", ("EFL, RFS",)),
        Chosen("classifier", "classifier_places", ("CE, cosine", "Balanced Softmax, cosine", "Softmax-EQL, cosine")),
        Chosen("undisturbed data", "undisturbed", ("Balanced Softmax", "Softmax-EQL")),
        Chosen("changing stream", "drift", ("Balanced Softmax", "Softmax-EQL", "Softmax-EQL, half_life 50")),
        Chosen("hard negatives", "hard_negatives", ("Grad-Blocking", "Sigmoid-EQL without objectness")),
    ],
    "class_counts": [
        Chosen("Places-LT, 365", "places_lt", ("Softmax-EQL", "Balanced Softmax", "Sigmoid-EQL")),
        Chosen("LVIS RoIs, 1,203", "lvis_rois", ("Softmax-EQL", "Sigmoid-EQL")),
        Chosen("LVIS anchors, 1,203", "lvis_anchors", ("EFL",)),
        Chosen("LVIS objects, 1,203", "lvis_objects", ("Softmax-EQL", "Balanced Softmax")),
        Chosen("OpenImages-like RoIs, 500", "openimages_rois", ("Softmax-EQL", "Sigmoid-EQL")),
        Chosen("iNaturalist-like, 8,142", "inaturalist", ("Softmax-EQL", "Balanced Softmax")),
    ],
}


@dataclass(frozen=True)
class Row:
    """A difference of two methods: (estimate, half the width of its interval) for each of `COLUMNS`."""

    shows: str
    method: str
    against: str
    differences: tuple[tuple[float, float], ...]


def rows_of(csv_file: Path) -> list[Row]:
    """The chosen rows of a page, with the numbers of its CSV file."""
    tables = read_csv(csv_file)
    return [
        _row(one.shows, [record for record in tables[one.table] if record["method"] == method])
        for one in SUMMARIES[csv_file.stem]
        for method in one.methods
    ]


def _row(shows: str, found: Sequence[Record]) -> Row:
    by_column = {record["column"]: record for record in found}
    records = [next(by_column[name] for name in names if name in by_column) for names in COLUMNS.values()]
    differences = tuple((float(record["difference"]), float(record["margin"])) for record in records)
    return Row(shows, found[0]["method"], found[0]["against"], differences)


def summary(rows: Sequence[Row]) -> str:
    """A Markdown table; bold where the interval excludes 0."""
    lines = [[row.shows, row.method, row.against, *(_cell(*pair) for pair in row.differences)] for row in rows]
    return as_markdown([["", "method", "against", *COLUMNS], *lines])


def _cell(estimate: float, margin: float) -> str:
    text = difference_and_margin(estimate, margin)
    return f"**{text}**" if abs(estimate) > margin else text


def draw(rows: Sequence[Row], file: Path) -> None:
    """The same rows as points with their intervals."""
    with style():
        figure = new_figure(height=1.0 + 0.34 * len(rows))
        axes = figure.subplots()
        for index, (name, colour) in enumerate(zip(COLUMNS, COLOURS, strict=False)):
            estimates, margins = zip(*(row.differences[index] for row in rows), strict=True)
            heights = [place + 0.24 * (index - 1) for place in range(len(rows))]
            axes.errorbar(estimates, heights, xerr=margins, fmt="o", ms=4, lw=1.4, color=colour, label=name)
        axes.axvline(0, color="#6b7280", lw=0.9)
        labels = [f"{row.shows}: {row.method} against {row.against}" for row in rows]
        axes.set_yticks(range(len(rows)), labels, fontsize=8.5)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color="#e5e7eb", lw=0.7)
        axes.set_axisbelow(True)
        axes.set_xlabel("difference in points, with its 95 % interval")
        figure.legend(loc="outside upper center", ncols=len(COLUMNS))
        save_figure(figure, file)


def fill(page: Path) -> None:
    """Table and figure of a page."""
    rows = rows_of(page.with_suffix(".csv"))
    marks = re.compile(r"(<!-- summary -->\n).*?(<!-- end -->)", re.DOTALL)
    text, count = marks.subn(lambda match: f"{match[1]}\n{summary(rows)}\n\n{match[2]}", page.read_text("utf-8"))
    if count != 1:
        raise SystemExit(f"{page}: expected one line <!-- summary -->, found {count}")
    figure = page.parents[1] / "figures" / f"{page.stem}.png"
    figure.parent.mkdir(exist_ok=True)
    draw(rows, figure)
    write_atomically(page, text.encode())
    print(f"{page}, {figure}\n\n{summary(rows)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=Path, metavar="PAGE.md", help="its CSV file is beside it")
    for page in parser.parse_args().pages:
        if page.stem not in SUMMARIES:
            parser.error(f"{page}: no rows are chosen for this page; expected {' or '.join(SUMMARIES)}")
        fill(page)
