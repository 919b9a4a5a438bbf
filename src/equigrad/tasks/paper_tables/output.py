"""Tables of the paper as Markdown, CSV and pages, and a summary of many of them."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from equigrad.analysis.compared_tables import as_markdown, as_text
from equigrad.analysis.paper_table import (
    ResultRow,
    agreement,
    columns_of,
    markdown,
    paper_table,
    table_records,
    variants_of,
)
from equigrad.analysis.paper_table_page import write_table_page
from equigrad.evaluation.tables import write_table
from equigrad.files import write_atomically

_MINI_NOTE = (
    "Scale mini: glyphs drawn on the spot, small networks, a few hundred steps. The methods are those of the rows, but "
    "not data, backbone and length: only ranks can be compared with the paper, not levels. Rows that differ in depth, "
    "length or size of the data alone share one run."
)
_BOXES_NOTE = "The glyph detectors have no masks: ours is the AP of boxes, also beside the AP of masks in the paper."
_GROUPS_NOTE = "The glyph data has rare, common and frequent categories: ours beside AP1 is APr, beside AP5 APf."


@dataclass(frozen=True)
class TableOutput:
    """Where tables go.

    Args:
        folder: where the files are.
        scale: "mini" or "full".
        options: options of the command that makes such a table, after its name.
        versions: software versions that made it.
    """

    folder: Path
    scale: str
    options: Sequence[str]
    versions: str

    def write(self, name: str, rows: Sequence[ResultRow]) -> str:
        """Write a table as Markdown, CSV and page; returns it as text."""
        title, notes, command = f"{name}, {self.scale}", self._notes(rows), self._command(name)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_table(table_records(rows), self.folder / f"{name}.csv")
        origin = f"`{shlex.join(command)}` ({self.versions})"
        write_atomically(self.folder / f"{name}.md", markdown(title, rows, [*notes, origin]).encode())
        write_table_page(self.folder / f"{name}.html", title, rows, notes=notes, command=command)
        text = as_text([[cell.replace("*", "") for cell in line] for line in paper_table(rows)])
        return f"\n{title}\n{text}\nMarkdown, CSV and page: {self.folder / name}.md, .csv, .html"

    def write_summary(self, tables: Mapping[str, Sequence[ResultRow]]) -> str:
        """Write the rank agreement of every table as Markdown; returns a line about it."""
        lines = [["table", "variant", "rows", "rank agreement (tau)"]]
        for name, rows in tables.items():
            for variant, members in variants_of(rows).items():
                found = {column: agreement(members, column) for column in columns_of(members)}
                num_rows = max((one.num_rows for one in found.values()), default=0)
                taus = ", ".join(f"{column} {one}" for column, one in found.items())
                lines.append([f"[{name}]({name}.md)", variant or "–", str(num_rows), taus])
        origin = f"`{shlex.join(self._command('all'))}` ({self.versions})"
        file = self.folder / "README.md"
        write_atomically(file, f"# Tables, {self.scale}\n\n{as_markdown(lines)}\n\n{origin}\n".encode())
        return f"\nRank agreement of all tables: {file}"

    def _command(self, name: str) -> list[str]:
        return ["equigrad", "table", name, *self.options]

    def _notes(self, rows: Sequence[ResultRow]) -> list[str]:
        if self.scale != "mini":
            return []
        columns = columns_of(rows)
        return [_MINI_NOTE, *[_BOXES_NOTE] * ("AP" in columns), *[_GROUPS_NOTE] * ("AP1" in columns)]
