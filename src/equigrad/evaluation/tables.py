"""Writing tables with one row for each category, as CSV or JSON."""

import csv
import dataclasses
import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from equigrad.csv_cells import defused
from equigrad.files import write_atomically


def write_table(rows: Sequence[Any], file: str | os.PathLike[str]) -> Path:
    """Write rows (dataclasses or mappings with the same fields) to a `.csv` or `.json` file; nan becomes empty.

    In CSV a name that a spreadsheet would run as a formula has an apostrophe before it (`equigrad.csv_cells`). The file
    appears complete or not at all.
    """
    file = Path(file)
    records = [_record(row) for row in rows]
    if file.suffix == ".json":
        text = json.dumps(records, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    elif file.suffix == ".csv":
        text = _csv(records)
    else:
        raise ValueError(f"{file}: expected a file name that ends in .csv or .json")
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, text.encode(errors="backslashreplace"))
    return file


def _record(row: Any) -> dict[str, Any]:
    record = dict(row) if isinstance(row, Mapping) else dataclasses.asdict(row)
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in record.items()}


def _csv(records: Sequence[dict[str, Any]]) -> str:
    stream = io.StringIO(newline="")
    if records:
        writer = csv.DictWriter(stream, list(records[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _cell(value) for name, value in record.items()} for record in records)
    return stream.getvalue()


def _cell(value: Any) -> Any:
    return defused(value) if isinstance(value, str) else value
