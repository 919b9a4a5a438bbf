"""What a command says before it uses a run that is not finished."""

import sys
from collections.abc import Iterable
from pathlib import Path

from equigrad.run_files import unfinished_note
from equigrad.terminal import printable


def note_unfinished(runs: Iterable[Path]) -> None:
    """A line on stderr for each of the runs that has steps left."""
    for run in runs:
        if note := unfinished_note(run):
            print(printable(f"equigrad: {note}"), file=sys.stderr, flush=True)
