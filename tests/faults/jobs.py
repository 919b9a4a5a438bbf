"""Trainings to disturb: the real command, in a process forked from this one, which has imported everything."""

import contextlib
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.quick_processes import PATIENCE, free_port

from equigrad.cli import main
from equigrad.engine.checkpoint import checkpoint_files, load_checkpoint

NUM_STEPS = 16
SETTINGS = (
    *("data.num_classes=5", "data.max_count=12", "data.imbalance_factor=6", "data.test_count=2"),
    *("training.schedule.epochs=4", "training.batch_size=8", "training.log_every=1", "training.checkpoint_every=3"),
    *("training.evaluate_every=2", "training.statistics_every=2"),
)
_FORK = multiprocessing.get_context("fork")


def train_words(folder: Path, workers: int = 0) -> list[str]:
    """The command of every training here."""
    words = ["train", "tiny:softmax_eql", "--run", str(folder), "--workers", str(workers)]
    return words + [word for setting in SETTINGS for word in ("--set", setting)]


class Job:
    """A training in its own process group, on one or more ranks.

    Args:
        folder: of the run.
        resume: with `--resume`.
        ranks: number of processes.
        workers: processes that read data, of each rank.
        clock_offset: seconds by which its clock is wrong.
        name: of the files beside the folder that get stdout and stderr.
    """

    def __init__(
        self,
        folder: Path,
        *,
        resume: bool = False,
        ranks: int = 1,
        workers: int = 0,
        clock_offset: float = 0.0,
        name: str = "job",
    ) -> None:
        self.folder = folder
        self.out, self.err = (folder.with_name(f"{name}.{stream}") for stream in ("out", "err"))
        for file in (self.out, self.err):
            file.write_text("")
        words = train_words(folder, workers) + ["--resume"] * resume
        environments = _rank_environments(ranks)
        self.processes = [_FORK.Process(target=self._run, args=(words, own, clock_offset)) for own in environments]
        for process in self.processes:
            process.start()

    def _run(self, words: list[str], environment: dict[str, str], clock_offset: float) -> None:
        os.setpgid(0, 0)
        os.environ.update(environment)
        for descriptor, file in ((1, self.out), (2, self.err)):
            os.dup2(os.open(file, os.O_WRONLY | os.O_APPEND), descriptor)
        if clock_offset:
            true_time = time.time
            time.time = lambda: true_time() + clock_offset
        sys.exit(main(words))

    def wait_for_step(self, step: int) -> bool:
        """Whether a line of this step was logged; False if the job ended before."""
        log, deadline = self.folder / "metrics.jsonl", time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(FileNotFoundError):
                if log.read_bytes().count(b"\n") >= step:
                    return True
            if not any(process.is_alive() for process in self.processes):
                return False
            time.sleep(0.002)
        raise AssertionError(f"no step {step} within {PATIENCE:.0f} s")

    def workers(self) -> list[int]:
        """Process ids of those that read data for the first rank."""
        process = self.processes[0].pid
        try:
            children = Path(f"/proc/{process}/task/{process}/children").read_text()
        except FileNotFoundError:  # it has ended
            return []
        return [int(child) for child in children.split()]

    def kill(self, number: int = signal.SIGKILL, rank: int = 0) -> None:
        """Send a signal to the process of a rank alone."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.processes[rank].pid or 0, number)

    def finish(self) -> list[int | None]:
        """Exit codes, after all processes have ended."""
        for process in self.processes:
            process.join(PATIENCE)
            if process.exitcode is None:
                process.kill()
                raise AssertionError(f"hangs: {self.said()}")
        return [process.exitcode for process in self.processes]

    def said(self) -> str:
        """Everything on stdout and stderr."""
        return self.out.read_text() + self.err.read_text()

    def error_line(self) -> str:
        """What is on stderr, which must be one line of the command."""
        lines = self.err.read_text().splitlines()
        assert len(lines) == 1, f"expected one line, got {lines[:3]} … {lines[-12:]}"
        assert lines[0].startswith("equigrad: "), lines[0]
        return lines[0]


def _rank_environments(ranks: int) -> Iterator[dict[str, str]]:
    if ranks == 1:
        yield {}
        return
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks)}
    for rank in range(ranks):
        yield {**common, "LOCAL_WORLD_SIZE": str(ranks), "RANK": str(rank), "LOCAL_RANK": str(rank)}


def differences(folder: Path, expected: Path, *, with_log: bool = True, with_history: bool = True) -> list[str]:
    """What a run has other than one that nobody disturbed, bit for bit; times are left out."""
    found = _compared(load_checkpoint(checkpoint_files(folder)[-1]), load_checkpoint(checkpoint_files(expected)[-1]))
    if not with_log:  # the checkpoint counts the lines
        found = [path for path in found if not path.startswith("/log/")]
    if (folder / "evaluation.json").read_bytes() != (expected / "evaluation.json").read_bytes():
        found.append("evaluation.json")
    if with_log:
        found += [f"metrics.jsonl{path}" for path in _compared(_logged(folder), _logged(expected))]
    if with_history:
        with np.load(folder / "statistics.npz") as ours, np.load(expected / "statistics.npz") as theirs:
            same = ours.files == theirs.files and all(np.array_equal(ours[name], theirs[name]) for name in ours.files)
        found += [] if same else ["statistics.npz"]
    return found


def _logged(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if "seconds" not in name} for line in lines]


def _compared(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Paths of values that differ."""
    ours, theirs = (dict(enumerate(value)) if isinstance(value, list | tuple) else value for value in (ours, theirs))
    if isinstance(theirs, dict) and isinstance(ours, dict):
        pairs = {key: (ours.get(key), theirs.get(key)) for key in theirs.keys() | ours.keys()}
        return [text for key, pair in pairs.items() for text in _compared(*pair, f"{path}/{key}")]
    if isinstance(theirs, torch.Tensor) and isinstance(ours, torch.Tensor):
        return [] if torch.equal(ours, theirs) else [path]
    return [] if repr(ours) == repr(theirs) else [path]  # by its text, because nan is not equal to itself
