"""Train the missing runs of tables, in one process or several that share a folder.

Each process takes the next run that no other process has and whose first stage is finished. So a second call, on
another core or another machine with the same folder, shares the work with the first.
"""

import contextlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch

from equigrad.engine.distributed import from_first_rank, ranks
from equigrad.errors import one_line
from equigrad.files import try_lock
from equigrad.run_files import RECIPE
from equigrad.settings import to_json
from equigrad.tasks.paper_tables.planning import PlannedRun
from equigrad.tasks.run_folder import evaluate_variant, task_of

_WAIT_SECONDS = 0.5  # while other processes train what this one needs


@dataclass
class Outcome:
    """How training the missing runs ended.

    Args:
        stopped: on request, before the end.
        failures: why runs failed, by name.
    """

    stopped: bool = False
    failures: dict[str, str] = field(default_factory=dict)


def train_missing(
    runs: Sequence[PlannedRun], folder: Path, *, jobs: int, command: Sequence[str], labels: Mapping[str, str]
) -> Outcome:
    """Train what is not there yet.

    Args:
        runs: in an order in which each comes after the one it starts from.
        folder: folder of the runs.
        jobs: processes; more than one take a thread each.
        command: that was called, for the run folders.
        labels: what to call each run in the lines of progress, by name.
    """
    (folder / "claims").mkdir(parents=True, exist_ok=True)
    if jobs == 1:
        return _work(runs, folder, command, labels)
    torch.set_num_threads(1)
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    others = [
        context.Process(target=_help, args=(queue, runs, folder, command, labels), daemon=True) for _ in range(jobs - 1)
    ]
    # Ctrl-C reaches all processes; the others wait for this one to tell them, also while they start.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    for process in others:
        process.start()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    outcome = _work(runs, folder, command, labels)
    for process in others:
        if outcome.stopped:
            process.terminate()  # a training takes this for a request to stop
        process.join()
    while not queue.empty():
        other = queue.get()
        outcome.stopped |= other.stopped
        outcome.failures |= other.failures
    return outcome


def _help(
    queue: Any, runs: Sequence[PlannedRun], folder: Path, command: Sequence[str], labels: Mapping[str, str]
) -> None:
    """Entry point of further processes."""
    torch.set_num_threads(1)
    queue.put(_work(runs, folder, command, labels))


def _work(runs: Sequence[PlannedRun], folder: Path, command: Sequence[str], labels: Mapping[str, str]) -> Outcome:
    """Train one run after the other until none is missing, or until the process that started this one has ended."""
    outcome, start = Outcome(), time.monotonic()
    at_start = _num_finished(runs, folder)
    parent = multiprocessing.parent_process()
    try:
        while not outcome.stopped and (parent is None or parent.is_alive()):
            possible = _possible(runs, folder, outcome)
            if not possible:
                break
            run = _train_next(possible, folder, command, outcome)
            if run is None:
                time.sleep(_WAIT_SECONDS)
            elif run.name in outcome.failures:
                print(f"{labels[run.name]}: failed: {outcome.failures[run.name]}", file=sys.stderr, flush=True)
            elif not outcome.stopped:
                _say(run, runs, folder, labels, at_start, start)
    except KeyboardInterrupt:
        outcome.stopped = True
    return outcome


def _possible(runs: Sequence[PlannedRun], folder: Path, outcome: Outcome) -> list[PlannedRun]:
    """The missing runs that have not failed, and do not start from one that has."""
    missing = [run for run in runs if run.name not in outcome.failures and not _is_finished(run, folder)]
    return [run for run in missing if run.start is None or run.start.name not in outcome.failures]


def _train_next(
    possible: Sequence[PlannedRun], folder: Path, command: Sequence[str], outcome: Outcome
) -> PlannedRun | None:
    """Train the first run that no other process has and whose first stage is finished; None if there is no such run."""
    for run in possible:
        with _claim(folder, run) as is_mine:
            if not is_mine or _is_finished(run, folder):
                continue
            if run.start is not None and not _is_finished(run.start, folder):
                continue  # another process is training it
            try:
                outcome.stopped = not _train(run, folder, command)
            except (ValueError, OSError) as error:
                outcome.failures[run.name] = one_line(error)
            return run
    return None


def _train(run: PlannedRun, folder: Path, command: Sequence[str]) -> bool:
    """Train or re-evaluate one run, with its output in a log file beside it; False if it was stopped."""
    target = folder / run.name
    recipe: Any = run.recipe
    with _quiet(folder / f"{run.name}.log"):
        if run.start is not None and run.is_reading:
            evaluate_variant(folder / run.start.name, recipe, target, command)
            return True
        if run.start is not None:
            recipe = replace(recipe, init=folder / run.start.name)
        resume = (target / RECIPE).exists()
        source = {"recipe": "", "set": [], "arguments": {}, "settings": to_json(recipe)}
        return not task_of(recipe).train(recipe, target, resume=resume, source=source, command=command).interrupted


def _is_finished(run: PlannedRun, folder: Path) -> bool:
    """As the first rank sees it: the others may have another file system."""
    found = run.is_finished(folder)
    return bool(from_first_rank(found)) if ranks()[1] > 1 else found


def _num_finished(runs: Sequence[PlannedRun], folder: Path) -> int:
    return sum(run.is_finished(folder) for run in runs)


@contextlib.contextmanager
def _claim(folder: Path, run: PlannedRun) -> Iterator[bool]:
    """Whether this process may train a run; other ranks of a job follow the first."""
    if ranks()[1] > 1 and ranks()[0] != 0:
        yield bool(from_first_rank(None))
        return
    descriptor = os.open(folder / "claims" / run.name, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        is_mine = try_lock(descriptor)
        yield bool(from_first_rank(is_mine)) if ranks()[1] > 1 else is_mine
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _quiet(log: Path) -> Iterator[None]:
    """Redirect the output of a training to a file."""
    with (
        log.open("a", encoding="utf-8") as stream,
        contextlib.redirect_stdout(stream),
        contextlib.redirect_stderr(stream),
    ):
        yield


def _say(
    run: PlannedRun, runs: Sequence[PlannedRun], folder: Path, labels: Mapping[str, str], at_start: int, start: float
) -> None:
    """One line for a finished run, and how long the others will take at the rate of all processes."""
    if ranks()[0] != 0:
        return
    finished = _num_finished(runs, folder)
    seconds = (time.monotonic() - start) / max(finished - at_start, 1)
    left = len(runs) - finished
    rest = f"; about {timedelta(seconds=round(seconds * left))} left" if left else ""
    print(f"[{finished}/{len(runs)}] {labels[run.name]}{rest}", flush=True)
