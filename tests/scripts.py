"""Scripts of `examples` and `benchmarks`, run in this process: starting Python and importing torch takes seconds."""

import contextlib
import io
import runpy
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import torch.multiprocessing

from quick_processes import quick_context

ROOT = Path(__file__).parents[1]


class Finished(NamedTuple):
    """What a process of its own would have left."""

    returncode: int
    stdout: str
    stderr: str


def run_script(script: str, *arguments: object) -> Finished:
    """Run a script, named from the root of the repository, as `python SCRIPT ARGUMENT…` would."""
    out, err = io.StringIO(), io.StringIO()
    file = ROOT / script
    code: object = 0
    quick_spawn = partial(torch.multiprocessing.start_processes, start_method=quick_context().get_start_method())
    # Scripts import their neighbours.
    with (
        patch.object(torch.multiprocessing, "spawn", quick_spawn),
        patch.object(sys, "argv", [script, *map(str, arguments)]),
        patch.object(sys, "path", [str(file.parent), *sys.path]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            runpy.run_path(str(file), run_name="__main__")
        except SystemExit as end:
            code = end.code or 0
    if isinstance(code, str):  # sys.exit(text) prints the text and means 1
        err.write(f"{code}\n")
        code = 1
    assert isinstance(code, int)
    return Finished(code, out.getvalue(), err.getvalue())
