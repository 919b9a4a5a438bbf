"""The files of a run in its folder, besides checkpoints.

recipe.json        settings, versions, seed and command, also of every resumption
metrics.jsonl      one line for each logged step
tensorboard/       the same numbers as events
statistics.npz     gradient statistics over time
"""

import json
import math
import os
import platform
import sys
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from torch import nn

from equigrad.engine.distributed import job_name
from equigrad.engine.event_file import EventFile
from equigrad.engine.settings import TrainSettings
from equigrad.engine.statistics_history import StatisticsHistory
from equigrad.errors import EngineError
from equigrad.files import TEMPORARY_SUFFIX, atomic_write, naming, write_atomically
from equigrad.meter.watched_losses import WatchedLosses
from equigrad.run_files import FORMAT, LOCK, METRICS, RECIPE, TENSORBOARD, read_recipe, standing
from equigrad.settings import to_json

_PACKAGES = ("equigrad", "torch", "torchvision", "lightning", "numpy")


def check_run_folder(folder: Path, resume: bool) -> None:
    """Refuse a new run in a folder that is not empty, and to resume in a folder that is not a run."""
    # A run that was killed at its very beginning leaves half of its first file.
    if all(path.name == LOCK or path.suffix == TEMPORARY_SUFFIX for path in folder.iterdir()):
        return
    if not resume:
        raise EngineError(f"the run folder {folder} is not empty: {_what_is_there(folder)}")
    if not (folder / RECIPE).exists():
        raise EngineError(f"cannot resume in {folder}: it has no {RECIPE}, so it is not the folder of a run")


def _what_is_there(folder: Path) -> str:
    if (found := standing(folder)) is None:
        return "choose another with --run"
    if found.is_finished:
        return (
            f"its run is finished, {found}; choose another with --run, or train longer with --resume and more --epochs"
        )
    return f"its run is not finished, {found}; --resume continues, or choose another with --run"


class RunLog:
    """Writes the numbers of a run; a resumed run continues as if nothing had been logged after its checkpoint.

    Args:
        folder: the run folder, which exists.
        step: step of the checkpoint from which the run continues, 0 for a new run.
        keeps_last_line: False drops the line of that step too, which will be written again.
        expected: `content` of the log when the checkpoint was written, if it is known.
        warn: called with one line about what a damaged file has lost.
    """

    def __init__(
        self,
        folder: Path,
        step: int,
        *,
        keeps_last_line: bool = True,
        expected: Mapping[str, int] | None = None,
        warn: Callable[[str], None] = print,
    ) -> None:
        self.folder = folder
        self.history = StatisticsHistory(folder, step, warn)
        self.content = {"lines": 0, "checksum": 0}
        for line in _drop_lines_after(folder / METRICS, step if keeps_last_line else step - 1):
            self._count(line)
        if expected is not None and expected != self.content:
            warn(f"warning: {folder / METRICS}: {_loss(expected, self.content, step)}")
        self._metrics = (folder / METRICS).open("a", encoding="utf-8")
        self._events = EventFile(folder / TENSORBOARD, purge_step=step + 1)

    def write(self, values: Mapping[str, Any]) -> None:
        """Add one line; `values["step"]` is its step. Numbers that are not finite become null."""
        line = _finite(values)
        with naming(self.folder / METRICS):
            self._metrics.write(json.dumps(line) + "\n")
            self._metrics.flush()
        self._count(line)
        self._events.write(values["step"], _scalars(values))

    def snapshot(self, step: int, model: nn.Module, watched: WatchedLosses | None = None) -> None:
        """Keep the gradient statistics of this step, and which samples the watched losses win."""
        self.history.record(step, model, watched)

    def sync(self) -> None:
        """Flush everything to disk, before the checkpoint that relies on it is written."""
        self.history.write()
        with naming(self.folder / METRICS):
            os.fsync(self._metrics.fileno())

    def _count(self, line: Mapping[str, Any]) -> None:
        # Times differ each time a step is repeated; without them a resumed run has the same checksum.
        text = json.dumps({name: value for name, value in line.items() if "seconds" not in name})
        self.content = {
            "lines": self.content["lines"] + 1,
            "checksum": zlib.crc32(text.encode(), self.content["checksum"]),
        }

    def close(self) -> None:
        """Close all files. After an error this writes the last snapshots; otherwise `sync` has done so."""
        with suppress(OSError):  # an error here would hide the one that ended the run
            self.history.write()
        with suppress(OSError):
            self._metrics.close()
        self._events.close()


def write_recipe(
    folder: Path,
    settings: TrainSettings,
    recipe: Mapping[str, Any],
    command: Sequence[str],
    step: int,
    last_step: int | None = None,
) -> None:
    """Describe the run in `recipe.json`; a resumed run adds its start to the file.

    Args:
        folder: the run folder.
        settings: settings of the training, which are written if `recipe` has no settings of the whole run.
        recipe: more about the run, as plain data.
        command: how it was started.
        step: it starts from.
        last_step: it ends with.
    """
    start = {
        "step": step,
        "last_step": last_step,
        "log_every": settings.log_every,
        "command": list(command),
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "versions": versions(),
        **({} if job_name() is None else {"job": job_name()}),
    }
    file = folder / RECIPE
    earlier = read_recipe(folder)["starts"] if file.exists() else []
    content = {
        "format": FORMAT,
        "seed": settings.seed,
        **start,
        "settings": to_json(settings),
        **recipe,
        "starts": [*earlier, start],
    }
    write_atomically(file, (json.dumps(content, indent=1) + "\n").encode())


def was_restarted(folder: Path) -> bool:
    """Whether the run in this folder was started by the job of torchrun that this process belongs to.

    The restart count of torchrun does not say so: it is 0 on a node that has replaced another.
    """
    if job_name() is None or not (folder / RECIPE).exists():
        return False
    starts = read_recipe(folder)["starts"]
    return bool(starts) and isinstance(starts[-1], dict) and starts[-1].get("job") == job_name()


def versions() -> dict[str, str]:
    """Python and the packages that decide about results."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def default_command() -> list[str]:
    """How this process was started, without the path of the interpreter."""
    return [Path(sys.argv[0]).name, *sys.argv[1:]]


def _drop_lines_after(file: Path, step: int) -> list[dict[str, Any]]:
    """Remove lines after a step and damaged lines from a log; returns the lines that are left."""
    if not file.exists():
        return []
    lines = [(line, _parsed(line)) for line in file.read_bytes().splitlines(keepends=True)]
    kept = [(line, values) for line, values in lines if values is not None and values["step"] <= step]
    with atomic_write(file) as stream:
        stream.writelines(line for line, _ in kept)
    return [values for _, values in kept]


def _parsed(line: bytes) -> dict[str, Any] | None:
    """Values of a line of the log; None if it is damaged."""
    try:
        values = json.loads(line) if line.endswith(b"\n") else None
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) and isinstance(values.get("step"), int) else None


def _loss(expected: Mapping[str, int], found: Mapping[str, int], step: int) -> str:
    """What a damaged log has lost, in words."""
    if found["lines"] < expected["lines"]:
        return f"{found['lines']} of {expected['lines']} lines up to step {step} can be read, the others are lost"
    return f"some of its lines up to step {step} are not what the run has written"


def _finite(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _finite(value)
        if isinstance(value, Mapping)
        else None
        if isinstance(value, float) and not math.isfinite(value)
        else value
        for name, value in values.items()
    }


def _scalars(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            found += _scalars(value, f"{prefix}{name}/")
        elif isinstance(value, int | float):
            found.append((prefix + name, float(value)))
    return found
