"""Files that are complete or not there: a crash never leaves half of one under its name."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

TEMPORARY_SUFFIX = ".part"


@contextmanager
def atomic_write(file: Path) -> Iterator[BinaryIO]:
    """Open a temporary file beside `file` that takes its name once everything written has reached the disk."""
    # The process is in the name: two that write the same file must not write into each other.
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
    """Write a whole file at once."""
    with atomic_write(file) as stream:
        stream.write(content)


def sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut: the name lives in the folder, not in the file."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_temporary_files(folder: Path) -> None:
    """Clear what a killed process left half-written."""
    for file in folder.glob(f".*{TEMPORARY_SUFFIX}"):
        file.unlink(missing_ok=True)
