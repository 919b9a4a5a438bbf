"""Kinds of faults. Each disturbs a training at a random moment and says how it ended; AssertionError if it was lost."""

import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.faults.jobs import NUM_STEPS, Job, differences

from equigrad.engine.checkpoint import checkpoint_files

BY_ITSELF = "ended as if undisturbed"
RESUMED = "bit-identical after `--resume`"
REFUSED = "refused in one line, then bit-identical"
REPORTED = "one line on what the log or history lost, else bit-identical"


@dataclass
class Lab:
    """Where one fault happens.

    Args:
        folder: of the run.
        references: runs that nobody disturbed, by number of ranks.
        random: of this fault.
    """

    folder: Path
    references: dict[int, Path]
    random: random.Random

    def killed(self) -> None:
        """A run that was killed after a random step, with at least one checkpoint."""
        job = Job(self.folder)
        job.wait_for_step(self.random.randint(4, NUM_STEPS - 1))
        time.sleep(self.random.uniform(0, 0.02))
        job.kill()
        job.finish()

    def started(self, **options: int) -> Job:
        """A run that has logged a random step."""
        job = Job(self.folder, **options)
        job.wait_for_step(self.random.randint(1, NUM_STEPS - 1))
        return job

    def resumed(self, *, ranks: int = 1, with_log: bool = True, with_history: bool = True, clock: float = 0.0) -> str:
        """What the run says when it goes on; it must end as the undisturbed one."""
        job = Job(self.folder, resume=True, ranks=ranks, clock_offset=clock)
        assert job.finish() == [0] * ranks, job.said()
        errors = job.err.read_text().splitlines()
        if not with_log:  # the page that the run ends with is told, too
            errors = [line for line in errors if not line.startswith(f"warning: {self.folder / 'metrics.jsonl'}: ")]
        assert not errors, errors
        self.check(ranks, with_log=with_log, with_history=with_history)
        return job.said()

    def check(self, ranks: int = 1, *, with_log: bool = True, with_history: bool = True) -> None:
        found = differences(self.folder, self.references[ranks], with_log=with_log, with_history=with_history)
        assert not found, f"not as undisturbed: {found[:5]}"
        left = list(self.folder.rglob("*.part"))
        assert not left, f"half-written files: {left}"

    def newest(self) -> Path:
        return checkpoint_files(self.folder)[-1]


def kill_the_job(lab: Lab) -> str:
    """`kill -9` of the training"""
    job = lab.started(workers=1)
    time.sleep(lab.random.uniform(0, 0.05))
    job.kill()
    job.finish()
    lab.resumed()
    return RESUMED


def kill_a_worker(lab: Lab) -> str:
    """`kill -9` of a process that reads data"""
    job = lab.started(workers=2)
    workers = job.workers()
    for worker in lab.random.sample(workers, min(1, len(workers))):
        with suppress(ProcessLookupError):  # it has ended
            os.kill(worker, signal.SIGKILL)
    (code,) = job.finish()
    if code == 0:  # all data had been read
        lab.check()
        return BY_ITSELF
    assert code == 1, job.said()
    assert "DataLoader worker" in job.error_line()
    lab.resumed()
    return RESUMED


def terminate(lab: Lab) -> str:
    """SIGTERM, as a scheduler sends it"""
    job = lab.started(workers=1)
    job.kill(signal.SIGTERM)
    (code,) = job.finish()
    assert job.err.read_text() == ""
    if code == 0:
        lab.check()
        return BY_ITSELF
    assert code == 3, job.said()
    lab.resumed()
    return RESUMED


def stop_and_continue(lab: Lab) -> str:
    """SIGSTOP and SIGCONT of the training"""
    job = lab.started()
    job.kill(signal.SIGSTOP)
    time.sleep(0.1)
    job.kill(signal.SIGCONT)
    assert job.finish() == [0], job.said()
    lab.check()
    return BY_ITSELF


def stop_a_rank(lab: Lab) -> str:
    """SIGSTOP and SIGCONT of one of two ranks"""
    job = lab.started(ranks=2)
    rank = lab.random.randrange(2)
    job.kill(signal.SIGSTOP, rank)
    time.sleep(0.3)
    job.kill(signal.SIGCONT, rank)
    assert job.finish() == [0, 0], job.said()
    lab.check(2)
    return BY_ITSELF


def kill_a_rank(lab: Lab) -> str:
    """`kill -9` of one of two ranks"""
    job = lab.started(ranks=2)
    rank = lab.random.randrange(2)
    job.kill(signal.SIGKILL, rank)
    codes = job.finish()
    if codes == [0, 0]:
        lab.check(2)
        return BY_ITSELF
    assert codes[rank] == -signal.SIGKILL, job.said()
    if codes[1 - rank] != 0:  # it had finished its own work
        assert f"rank {rank} (process {job.processes[rank].pid} on " in job.error_line()
    lab.resumed(ranks=2)
    return RESUMED


def fill_the_disk(lab: Lab) -> str:
    """disk full: a file system of 0.9 to 3 MB"""
    lab.folder.mkdir()
    size = lab.random.randint(900_000, 3_000_000)
    _run("mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(lab.folder))
    try:
        job = Job(lab.folder)
        assert job.finish() == [1], job.said()
        assert "No space left on device" in job.error_line()
        assert not list(lab.folder.rglob("*.part"))
        _run("mount", "-o", "remount,size=100m", str(lab.folder))
        lab.resumed()
    finally:
        _run("umount", str(lab.folder))
    return RESUMED


def limit_files(lab: Lab) -> str:
    """no file may grow beyond some size, as with a quota"""
    job = lab.started()
    _run("prlimit", f"--pid={job.processes[0].pid}", f"--fsize={lab.random.randint(1, 700_000)}", check=False)
    (code,) = job.finish()
    if code == 0:  # the limit came too late
        lab.check()
        return BY_ITSELF
    assert code == 1, job.said()
    assert "File too large" in job.error_line()
    assert not list(lab.folder.rglob("*.part"))
    lab.resumed()
    return RESUMED


def make_read_only(lab: Lab) -> str:
    """run folder read-only when it is resumed"""
    lab.killed()
    _run("mount", "--bind", str(lab.folder), str(lab.folder))
    try:
        _run("mount", "-o", "remount,ro,bind", str(lab.folder))
        job = Job(lab.folder, resume=True)
        assert job.finish() == [1], job.said()
        assert "Read-only file system" in job.error_line()
    finally:
        _run("umount", str(lab.folder))
    lab.resumed()
    return REFUSED


def truncate_a_checkpoint(lab: Lab) -> str:
    """the newest checkpoint truncated"""
    lab.killed()
    newest = lab.newest()
    os.truncate(newest, lab.random.randrange(newest.stat().st_size))
    assert f"cannot load the checkpoint {newest}" in lab.resumed()
    return RESUMED


def flip_a_bit(lab: Lab) -> str:
    """a bit of the newest checkpoint flipped"""
    lab.killed()
    _flip(lab.newest(), lab.random)
    lab.resumed()
    return RESUMED


def _resumed_with_a_damaged_log(lab: Lab, log: Path) -> str:
    if f"warning: {log}: " in lab.resumed(with_log=False):
        return REPORTED
    lab.check()
    return RESUMED


def cut_the_log(lab: Lab) -> str:
    """`metrics.jsonl` cut at a random byte"""
    lab.killed()
    log = lab.folder / "metrics.jsonl"
    os.truncate(log, lab.random.randrange(log.stat().st_size))
    return _resumed_with_a_damaged_log(lab, log)


def flip_a_bit_of_the_log(lab: Lab) -> str:
    """a bit of `metrics.jsonl` flipped"""
    lab.killed()
    log = lab.folder / "metrics.jsonl"
    _flip(log, lab.random)
    return _resumed_with_a_damaged_log(lab, log)


def damage_the_history(lab: Lab) -> str:
    """`statistics.npz` cut at a random byte"""
    lab.killed()
    history = lab.folder / "statistics.npz"
    os.truncate(history, lab.random.randrange(history.stat().st_size))
    assert f"warning: {history}: " in lab.resumed(with_history=False)
    return REPORTED


def cut_the_recipe(lab: Lab) -> str:
    """`recipe.json` cut at a random byte, later restored"""
    lab.killed()
    recipe = lab.folder / "recipe.json"
    whole = recipe.read_bytes()
    recipe.write_bytes(whole[: lab.random.randrange(len(whole) - 2)])
    job = Job(lab.folder, resume=True)
    assert job.finish() == [1], job.said()
    assert str(recipe) in job.error_line()
    recipe.write_bytes(whole)
    lab.resumed()
    return REFUSED


def set_the_clock_back(lab: Lab) -> str:
    """clock set back or forward by days, times of files shuffled"""
    lab.killed()
    for file in lab.folder.rglob("*"):
        moment = lab.random.uniform(0, 4e9)
        os.utime(file, (moment, moment))
    lab.resumed(clock=lab.random.uniform(-1e6, 1e6))
    return RESUMED


def resume_beside(lab: Lab) -> str:
    """`--resume` in the folder of a running training"""
    job = lab.started()
    job.kill(signal.SIGSTOP)  # it must not end before the other begins
    beside = Job(lab.folder, resume=True, name="beside")
    codes = beside.finish()
    job.kill(signal.SIGCONT)
    if codes != [0]:  # the training had not ended
        assert codes == [1], beside.said()
        assert f" is in use by process {job.processes[0].pid} on " in beside.error_line()
    assert job.finish() == [0], job.said()
    lab.check()
    return BY_ITSELF


def _flip(file: Path, generator: random.Random) -> None:
    content = bytearray(file.read_bytes())
    content[generator.randrange(len(content))] ^= 1 << generator.randrange(8)
    file.write_bytes(content)


def _run(*command: str, check: bool = True) -> bool:
    return subprocess.run(command, capture_output=True, check=check).returncode == 0


def _can_mount() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        return _run("mount", "-t", "tmpfs", "none", folder, check=False) and _run("umount", folder)


KINDS: tuple[Callable[[Lab], str], ...] = (
    *(kill_the_job, kill_a_worker, terminate, stop_and_continue, truncate_a_checkpoint, flip_a_bit),
    *(cut_the_log, flip_a_bit_of_the_log, damage_the_history, cut_the_recipe, set_the_clock_back),
    *(resume_beside, limit_files, kill_a_rank, stop_a_rank, fill_the_disk, make_read_only),
)
NEEDS_MOUNT = (fill_the_disk, make_read_only)


def possible_kinds() -> list[Callable[[Lab], str]]:
    """All kinds, without those that need a file system to be mounted where that is not allowed."""
    can_mount = os.geteuid() == 0 and _can_mount()
    return [kind for kind in KINDS if can_mount or kind not in NEEDS_MOUNT]
