"""Commands as a user types them, run in this process and on small data."""

import contextlib
import io
from typing import NamedTuple

from equigrad.cli import main

FEW_GLYPHS = ("data.num_classes=5", "data.max_count=12", "data.imbalance_factor=6", "data.test_count=2")
SHORT_RUN = (
    *(*FEW_GLYPHS, "training.schedule.epochs=1", "training.batch_size=8"),
    *("training.schedule.warmup.length=1", "training.log_every=1"),
)


class Done(NamedTuple):
    """What a process of its own would have left."""

    code: int
    out: str
    err: str


def equigrad(*words, settings=(), folder="."):
    """Run a command from a folder, with `--set` for each of the settings."""
    out, err = io.StringIO(), io.StringIO()
    words = [*map(str, words), *(word for setting in settings for word in ("--set", setting))]
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as usage:
            code = usage.code
    return Done(code, out.getvalue(), err.getvalue())
