"""One process at a time writes in a run folder, and the lock ends with it."""

import errno
import fcntl
import os
import signal
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from engine.test_resume import wait_for
from engine.toy import Options, finish, start
from equigrad.engine import EngineError
from equigrad.engine.run_lock import check_not_in_use, run_lock
from quick_processes import PATIENCE, quick_context


def test_a_folder_in_use_is_refused_with_its_holder_for_writing_and_for_reading(tmp_path):
    with run_lock(tmp_path / "run", ["equigrad", "train", "tiny:ce"]):
        for refused in (
            lambda: run_lock(tmp_path / "run", ["other"]).__enter__(),
            lambda: check_not_in_use(tmp_path / "run"),
        ):
            with pytest.raises(EngineError) as raised:
                refused()
            holder = f"is in use by process {os.getpid()} on {socket.gethostname()} since 20"
            assert holder in str(raised.value)
            assert str(raised.value).endswith(": equigrad train tiny:ce")
            assert "\n" not in str(raised.value)
    check_not_in_use(tmp_path / "run")
    with run_lock(tmp_path / "run", ["other"]):
        pass
    assert list((tmp_path / "run").iterdir()) == []


@pytest.mark.parametrize("content", ["", "{", "[]", '{"process": "x"}', "[" * 100_000])
def test_a_damaged_lock_file_still_locks(content, tmp_path):
    with run_lock(tmp_path, ["equigrad"]):
        (tmp_path / ".lock").write_text(content)
        with pytest.raises(EngineError, match="is in use by another process"):
            check_not_in_use(tmp_path)


def test_a_lock_file_that_a_kill_left_does_not_lock(tmp_path):
    (tmp_path / ".lock").write_text('{"process": 1}')
    check_not_in_use(tmp_path)
    with run_lock(tmp_path, ["equigrad"]):
        pass


def test_a_file_is_not_a_run_folder(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(EngineError, match="is a file"), run_lock(tmp_path / "thesis.tex", []):
        pass


def count(folder: Path, times: int) -> None:
    while times:
        try:
            with run_lock(folder / "run", ["count"]):
                number = int((folder / "number").read_text())
                (folder / "number").write_text(str(number + 1))
                times -= 1
        except EngineError:
            continue


def test_processes_that_take_the_folder_in_turn_never_hold_it_together(tmp_path):
    (tmp_path / "number").write_text("0")
    children = [quick_context().Process(target=count, args=(tmp_path, 200)) for _ in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join(PATIENCE)
    assert (tmp_path / "number").read_text() == "600"


def test_resuming_beside_a_training_is_refused_and_a_kill_frees_the_folder_though_data_workers_live(tmp_path):
    options, output, refused = Options(tmp_path / "run", seconds=0.1), tmp_path / "output.txt", tmp_path / "refused.txt"
    training = start(options, output)
    wait_for(tmp_path / "run" / "metrics.jsonl", "\n")
    os.kill(training.pid, signal.SIGSTOP)  # it must not end before the other begins
    assert finish(replace(options, resume=True), refused) == 1
    (line,) = refused.read_text().splitlines()
    assert f"is in use by process {training.pid} on " in line
    workers = [int(pid) for pid in Path(f"/proc/{training.pid}/task/{training.pid}/children").read_text().split()]
    assert len(workers) >= 2
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)  # as slow as a worker can be to notice
    training.kill()
    training.join()
    try:
        with run_lock(tmp_path / "run", []):
            assert all(Path(f"/proc/{worker}").exists() for worker in workers)
    finally:
        for worker in workers:
            os.kill(worker, signal.SIGKILL)


def test_without_locks_on_the_file_system_a_line_says_so_and_the_work_goes_on(tmp_path, monkeypatch, capsys):
    def no_locks(descriptor, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with run_lock(tmp_path, ["equigrad"]):
        pass
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"equigrad: {tmp_path}: this file system cannot lock files (No locks available)")
