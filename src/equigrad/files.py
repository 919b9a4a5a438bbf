"""Atomic writes: after a crash a file is complete or missing, never half written. Locks that end with their process."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

TEMPORARY_SUFFIX = ".part"


@contextmanager
def atomic_write(file: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `file` when everything written has reached the disk."""
    # With the process id in the name, two processes that write the same file do not mix.
    temporary = file.with_name(f".{file.name}.{os.getpid()}{TEMPORARY_SUFFIX}")
    try:
        with _open_locked(temporary) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            temporary.replace(file)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(file.parent)


def write_atomically(file: Path, content: bytes) -> None:
    """Replace a file with new content."""
    with atomic_write(file) as stream:
        stream.write(content)


def sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut; the name is stored in the folder, not in the file."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_temporary_files(folder: Path) -> None:
    """Remove half-written files of killed processes; those that are being written stay."""
    for file in folder.glob(f".*{TEMPORARY_SUFFIX}"):
        # Where files cannot be locked, nothing tells whether the writer lives.
        with suppress(OSError), file.open("r+b") as stream:
            if try_lock(stream.fileno()):
                file.unlink()


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Whether this process now holds an open file, until it closes the file or dies; False if another one does.

    Raises:
        OSError: the file system has no locks.
    """
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _open_locked(temporary: Path) -> BinaryIO:
    """A new file that others can see is being written."""
    while True:
        stream = temporary.open("wb")
        with suppress(OSError):  # without locks nobody removes it either
            fcntl.flock(stream.fileno(), fcntl.LOCK_EX)
        if os.fstat(stream.fileno()).st_nlink:
            return stream
        stream.close()  # removed between opening and locking
