"""Only one process writes in a run folder at a time.

The kernel holds the lock (`flock` on the file `.lock`) and releases it when the process ends, however that happens. It
also works between machines that share an NFS folder. The content of the file names the process that holds the lock.
"""

import errno
import json
import os
import shlex
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from equigrad.errors import EngineError
from equigrad.files import try_lock
from equigrad.run_files import LOCK

_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)

_held: set[int] = set()  # descriptors of the locks of this process


@contextmanager
def run_lock(folder: Path, command: Sequence[str]) -> Iterator[None]:
    """Hold a run folder, which is created if needed.

    Where the file system has no locks, a line on stderr says so and the work goes on.

    Args:
        folder: the run folder.
        command: command of this process, for the message to other processes.

    Raises:
        EngineError: another process holds the folder, and which one.
    """
    if folder.exists() and not folder.is_dir():
        raise EngineError(f"the run folder {folder} is a file")
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / LOCK
    descriptor = _acquire(file)
    _held.add(descriptor)
    try:
        _write_holder(descriptor, command)
        yield
    finally:
        if descriptor in _held:  # false in a forked process, which leaves the lock to its parent
            _held.remove(descriptor)
            # Removed before the lock is released: a process that has opened it meanwhile sees that and makes another.
            with suppress(OSError):
                file.unlink()
            os.close(descriptor)


def check_not_in_use(folder: Path) -> None:
    """Refuse to read a run that another process is writing."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        _lock(folder / LOCK, descriptor, shared=True)
    finally:
        os.close(descriptor)


def _acquire(file: Path) -> int:
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(file, descriptor)
            if os.fstat(descriptor).st_nlink:
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the previous holder has removed this file


def _lock(file: Path, descriptor: int, *, shared: bool = False) -> None:
    try:
        is_free = try_lock(descriptor, shared=shared)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        text = f"equigrad: {file.parent}: this file system cannot lock files ({error.strerror})"
        print(f"{text}; make sure that no other process writes in this run folder", file=sys.stderr)
        return
    if not is_free:
        raise EngineError(f"{file.parent} is in use by {_holder(descriptor)}")


def _write_holder(descriptor: int, command: Sequence[str]) -> None:
    holder = {
        "host": socket.gethostname(),
        "process": os.getpid(),
        "command": shlex.join(command),
        "since": time.strftime("%Y-%m-%d %H:%M:%S %z"),
    }
    with suppress(OSError):  # a full disk will fail at a write that matters more
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(holder).encode(), 0)


def _holder(descriptor: int) -> str:
    """Who holds a folder, as its lock file says; that file is not trusted to be whole."""
    try:
        holder = json.loads(os.pread(descriptor, 10_000, 0))
        return (
            f"process {int(holder['process'])} on {holder['host']!s:.100} since {holder['since']!s:.30}: "
            f"{holder['command']!s:.1000}"
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return "another process"


def _leave_to_parent() -> None:
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


# A data worker shares the files that were open when it was forked. It lives on for seconds when its training is killed.
os.register_at_fork(after_in_child=_leave_to_parent)
