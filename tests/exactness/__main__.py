"""Measures the whole matrix, which takes about ten minutes on two idle cores, and writes its table."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.exactness.cells import all_cells
from tests.exactness.matrix import measure
from tests.exactness.promises import promise
from tests.exactness.table import with_table


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.exactness", description=__doc__)
    parser.add_argument("--table", type=Path, required=True, help="the page whose table is written anew")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        deviations = measure(all_cells(), Path(folder))
    arguments.table.write_text(with_table(arguments.table.read_text(), deviations))
    broken = [
        f"{cell}: {found}"
        for cell, found in deviations.items()
        if not found.ranks_agree or found.statistics > promise(cell).statistics or found.weights > promise(cell).weights
    ]
    print(f"{len(deviations)} trainings, {len(broken)} of them not as promised", *broken, sep="\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
