"""Atomic writes: after a crash a file is complete or missing, never half written. Locks that end with their process.

Temporary files of a killed process are hidden and have its id in their name. The next process that writes in that
folder removes them.
"""

import fcntl
import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

TEMPORARY_SUFFIX = ".part"


@contextmanager
def atomic_write(file: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `file` when everything written has reached the disk.

    Raises:
        OSError: the file cannot be written; the message names it, whatever the writer raised.
    """
    _tidy_once(file.parent.absolute())
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
def atomic_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder that becomes `folder`, which must be new or empty, when everything is in it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    remove_temporary_files(folder.parent)
    prefix = f".{folder.name}.{os.getpid()}-"
    temporary = Path(tempfile.mkdtemp(prefix=prefix, suffix=TEMPORARY_SUFFIX, dir=folder.parent))
    descriptor = os.open(temporary, os.O_RDONLY)
    try:
        with suppress(OSError):  # without file locks, no process removes it either
            try_lock(descriptor)
        fresh = temporary / "data"
        fresh.mkdir()
        yield fresh
        fresh.rename(folder)  # only replaces an empty folder
    finally:
        os.close(descriptor)
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def naming(file: Path) -> Iterator[None]:
    """Put the name of the file into an OSError raised inside, which has none or that of a temporary file."""
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
    """Remove half-written files and folders of killed processes; those that are being written stay."""
    for path in folder.glob(f".*.[0-9]*{TEMPORARY_SUFFIX}"):
        # Without file locks it is not known whether the writer is still running.
        with suppress(OSError):
            _remove_unlocked(path)


@cache
def _tidy_once(folder: Path) -> None:
    """Remove temporary files before the first write of this process only, because listing a large folder takes long."""
    remove_temporary_files(folder)


def _remove_unlocked(path: Path) -> None:
    is_folder = path.is_dir()
    descriptor = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
    try:
        # Its writer may have renamed it meanwhile, and begun a new one of the same name.
        if try_lock(descriptor) and os.path.samestat(path.stat(), os.fstat(descriptor)):
            if is_folder:
                shutil.rmtree(path)
            else:
                path.unlink()
    finally:
        os.close(descriptor)


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Lock an open file until this process closes it or ends; False if another process has locked it.

    Raises:
        OSError: the file system has no locks.
    """
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class _RawFile(io.FileIO):
    """Keeps the OSError of a failed write, because `torch.save` raises another that does not mention a full disk."""

    failure: OSError | None = None

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.failure = error
            raise


def _open_locked(temporary: Path) -> _RawFile:
    """A new file with a lock, by which other processes see that it is being written."""
    while True:
        raw = _RawFile(temporary, "wb")
        with suppress(OSError):  # without file locks, no process removes it either
            fcntl.flock(raw.fileno(), fcntl.LOCK_EX)
        if os.fstat(raw.fileno()).st_nlink:
            return raw
        raw.close()  # removed between opening and locking
