"""Text and CSV files of which nothing is trusted: errors name the file, and no file needs more memory than it may."""

import csv
from collections.abc import Iterator
from pathlib import Path

DELIMITERS = (",", ";", "\t")  # between the columns of a CSV file
MAX_LINE = 1 << 20  # characters
MAX_CATEGORIES = 1_000_000  # more than any data set has


def text_lines(file: Path) -> Iterator[str]:
    """The lines of a text in UTF-8, with their ends; ValueError names the file."""
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            while line := stream.readline(MAX_LINE):
                if len(line) == MAX_LINE and not line.endswith("\n"):
                    raise ValueError(f"{file}: expected lines of up to {MAX_LINE:,} characters, got a longer one")
                yield line
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{file}: expected text in UTF-8, got other bytes ({error.reason}); save it as UTF-8"
        ) from None


def name_lines(file: Path) -> list[str]:
    """The lines of a list of names, without white space around them."""
    names: list[str] = []
    for line in text_lines(file):
        names.append(line.strip())
        _check_count(file, len(names))
    return names


def csv_rows(file: Path, delimiter: str | None = None) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV file that are not empty, with the number of their last line; ValueError names the line."""
    reader = csv.reader(text_lines(file), delimiter=delimiter or delimiter_of(file))
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise ValueError(f"{file}, line {reader.line_num}: not CSV ({error})") from None


def delimiter_of(file: Path) -> str:
    """What is between the columns of a CSV file: a comma or, as spreadsheets of many countries write, `;` or a tab."""
    header = next(text_lines(file), "")
    return max(DELIMITERS, key=header.count)


def csv_table(file: Path) -> list[dict[str, str]]:
    """The rows below the header of a CSV file, by column in lower case; cells that are missing are empty."""
    rows = csv_rows(file)
    _, header = next(rows, (0, []))
    columns = [name.strip().lower() for name in header]
    table: list[dict[str, str]] = []
    for _, row in rows:
        table.append(dict(zip(columns, [*row, *[""] * (len(columns) - len(row))], strict=False)))
        _check_count(file, len(table))
    return table


def read_small(file: Path, limit: int) -> bytes:
    """The content of a file; ValueError if it has more bytes than such a file ever needs."""
    if not file.is_file():  # a pipe or a device would have no end
        raise FileNotFoundError(f"{file}: no such file")
    if (size := file.stat().st_size) > limit:
        raise ValueError(f"{file}: expected at most {limit:,} bytes, got {size:,}")
    return file.read_bytes()


def _check_count(file: Path, count: int) -> None:
    if count > MAX_CATEGORIES:
        raise ValueError(f"{file}: expected at most {MAX_CATEGORIES:,} categories, got more")
