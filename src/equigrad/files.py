"""Atomic writes: after a crash a file is complete or missing, never half written. Locks that end with their process."""

import fcntl
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

TEMPORARY_SUFFIX = ".part"


@contextmanager
def atomic_write(file: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `file` when everything written has reached the disk.

    Raises:
        OSError: with the name of the file, when it cannot be written, whatever the writer made of that error.
    """
    # With the process id in the name, two processes that write the same file do not mix.
    temporary = file.with_name(f".{file.name}.{os.getpid()}{TEMPORARY_SUFFIX}")
    with naming(file):
        raw = _open_locked(temporary)
    try:
        with io.BufferedWriter(raw) as stream:
            yield stream
            stream.flush()
            os.fsync(raw.fileno())
            temporary.replace(file)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        with naming(file):
            raise raw.failure or error  # noqa: B904 (it is the error itself, or its cause)
    sync_folder(file.parent)


@contextmanager
def naming(file: Path) -> Iterator[None]:
    """An error of the disk inside gets the name of the file; the system gives none, or that of the temporary file."""
    try:
        yield
    except OSError as error:
        if error.errno is None or not (error.filename is None or _is_temporary(error.filename)):
            raise
        raise OSError(error.errno, error.strerror, str(file)) from error


def _is_temporary(name: str | bytes | os.PathLike[str]) -> bool:
    return os.fsdecode(name).endswith(TEMPORARY_SUFFIX)


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


class _RawFile(io.FileIO):
    """Remembers why it could not be written: `torch.save` turns a full disk into an error that does not say so."""

    failure: OSError | None = None

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.failure = error
            raise


def _open_locked(temporary: Path) -> _RawFile:
    """A new file that others can see is being written."""
    while True:
        raw = _RawFile(temporary, "wb")
        with suppress(OSError):  # where files cannot be locked, nobody removes it either
            fcntl.flock(raw.fileno(), fcntl.LOCK_EX)
        if os.fstat(raw.fileno()).st_nlink:
            return raw
        raw.close()  # removed between opening and locking
