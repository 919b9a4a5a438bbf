import os
import signal
import time

import pytest

from equigrad.engine import EngineError
from equigrad.engine.loading import workers
from equigrad.engine.loading.workers import leave_signals_to_the_training, naming_dead_workers
from quick_processes import PATIENCE, quick_context

SLEEP = 30.0
"""Seconds that a worker would go on if nothing ended it."""


def _work(training: int) -> None:
    workers.SECONDS_BETWEEN_LOOKS = 0.05
    leave_signals_to_the_training(0, training=training)
    time.sleep(SLEEP)


def _start_a_worker_and_die(connection) -> None:
    training = os.getpid()
    if os.fork() == 0:
        _work(training)
        os._exit(1)
    connection.send("started")
    os.kill(training, signal.SIGKILL)


def test_a_worker_whose_training_died_before_it_had_started_ends_at_once():
    worker = quick_context().Process(target=_work, args=(2**22 + 1,))
    start = time.monotonic()
    worker.start()
    worker.join(PATIENCE)
    assert worker.exitcode == 0
    assert time.monotonic() - start < SLEEP


def test_a_worker_ends_soon_after_its_training_was_killed():
    ours, theirs = quick_context().Pipe()
    training = quick_context().Process(target=_start_a_worker_and_die, args=(theirs,))
    training.start()
    theirs.close()
    start = time.monotonic()
    assert ours.recv() == "started"
    with pytest.raises(EOFError):  # once the worker, too, has closed its end
        ours.recv()
    assert time.monotonic() - start < SLEEP


def test_the_death_of_a_worker_is_found_behind_the_error_that_came_of_it():
    def saving_is_interrupted():
        try:
            raise RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed. ")
        except RuntimeError:
            raise RuntimeError("unexpected pos 64 vs 0")  # noqa: B904 (as the writer of checkpoints does)

    line = r"^DataLoader worker \(pid 7\) is killed by signal: Killed; if memory ran out, .*; --resume continues$"
    with pytest.raises(EngineError, match=line), naming_dead_workers():
        saving_is_interrupted()
    with pytest.raises(RuntimeError, match="another"), naming_dead_workers():
        raise RuntimeError("another")
