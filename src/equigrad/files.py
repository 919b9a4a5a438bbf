"""Atomic writes: after a crash a file is either complete or missing, never half written."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

TEMPORARY_SUFFIX = ".part"


@contextmanager
def atomic_write(file: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `file` when everything written has reached the disk."""
    # With the process id in the name, two processes that write the same file do not mix.
    temporary = file.with_name(f".{file.name}.{os.getpid()}{TEMPORARY_SUFFIX}")
    try:
        with temporary.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
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
    """Remove half-written files of killed processes."""
    for file in folder.glob(f".*{TEMPORARY_SUFFIX}"):
        file.unlink(missing_ok=True)
