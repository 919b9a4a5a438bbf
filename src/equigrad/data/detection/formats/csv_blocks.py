"""Reading large CSV files in blocks of rows as arrays, with errors that name the line and the field.

    for block in csv_blocks("boxes.csv", {"ImageID": "S32", "XMin": "f8"}):
        block.require(block["XMin"] >= 0, "XMin", "at least 0")

Quoted fields are not supported: with 14 million rows, parsing quotes would take most of the time.
"""

import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

ROWS_AT_ONCE = 500_000
_MAX_LINE = 1 << 20  # bytes


@dataclass(frozen=True, eq=False)
class CsvBlock:
    """Consecutive rows of a file."""

    file: Path
    start: int  # number of data rows before this block
    positions: Mapping[str, int]  # index of each column in the file
    rows: NDArray[Any]  # (N,) structured

    def __getitem__(self, name: str) -> NDArray[Any]:
        column: NDArray[Any] = self.rows[name]
        return column

    def __contains__(self, name: str) -> bool:
        return name in self.positions

    def __len__(self) -> int:
        return len(self.rows)

    def require(self, is_good: NDArray[np.bool_], name: str, expected: str) -> None:
        """Raise ValueError for the first row where `is_good` (N,) is False."""
        if is_good.all():
            return
        row = self.start + int(np.argmin(is_good))
        number, fields = next(found for index, found in enumerate(_data_lines(self.file)) if index == row)
        raise ValueError(
            f"{self.file}, line {number}: {name} must be {expected}, got {fields[self.positions[name]][:80]!r}"
        )


def csv_blocks(
    file: str | os.PathLike[str], types: Mapping[str, str], optional: Mapping[str, str] | None = None
) -> Iterator[CsvBlock]:
    """Read some columns of a file with a header; case and underscores of column names do not matter.

    Args:
        file: comma-separated fields; empty lines are skipped.
        types: required columns with their numpy types; text is cut to the length of its type.
        optional: columns that may be missing.
    """
    file = Path(file)
    _check_lines(file)
    # Latin-1 decodes any bytes; everything that is compared is ASCII.
    with file.open(encoding="latin-1") as stream:
        header = [name.strip() for name in stream.readline().removeprefix("ï»¿").split(",")]
        columns = {_plain(name): column for column, name in enumerate(header)}
        missing = [name for name in types if _plain(name) not in columns]
        if missing:
            raise ValueError(f"{file}, line 1: expected the column {missing[0]}, got {','.join(header)[:80]!r}")
        wanted = dict(types) | {name: kind for name, kind in (optional or {}).items() if _plain(name) in columns}
        positions = {name: columns[_plain(name)] for name in wanted}
        start = 0
        while len(rows := _next_rows(stream, file, wanted, positions)):
            yield CsvBlock(file, start, positions, rows)
            start += len(rows)


def _check_lines(file: Path) -> None:
    """Refuse a file with a line without end, which would be read into memory as a whole."""
    with file.open("rb") as stream:
        while len(chunk := stream.read(_MAX_LINE)) == _MAX_LINE:
            if b"\n" not in chunk:
                raise ValueError(f"{file}: expected lines of up to {_MAX_LINE:,} bytes, got a longer one")


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def _next_rows(stream: TextIO, file: Path, types: Mapping[str, str], positions: Mapping[str, int]) -> NDArray[Any]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*contained no data", UserWarning)  # empty lines, and the end of the file
        try:
            return np.loadtxt(
                stream,
                np.dtype(list(types.items())),
                comments=None,
                delimiter=",",
                usecols=[positions[name] for name in types],
                max_rows=ROWS_AT_ONCE,
                ndmin=1,
            )
        except ValueError as error:
            _raise_for_first_broken_row(file, types, positions)
            raise ValueError(f"{file}: {error}") from None


def _raise_for_first_broken_row(file: Path, types: Mapping[str, str], positions: Mapping[str, int]) -> None:
    for number, fields in _data_lines(file):
        for name, position in positions.items():
            if position >= len(fields):
                raise ValueError(f"{file}, line {number}: {name} is missing, got {','.join(fields)[:80]!r}")
            if not types[name].startswith("S") and not _is_number(fields[position]):
                raise ValueError(f"{file}, line {number}: {name} must be a number, got {fields[position][:80]!r}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _data_lines(file: Path) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of every line below the header that is not empty."""
    with file.open(encoding="latin-1") as stream:
        next(stream)
        for number, line in enumerate(stream, start=2):
            if line.strip():
                yield number, line.rstrip("\n").split(",")
