"""Annotation files are read once: what they hold is kept as arrays in a cache folder, and mapped at every later start.

    EQUIGRAD_CACHE=/scratch/cache equigrad train …         # another folder than ~/.cache/equigrad; empty: none

An index is valid for the files it was made from: size and time of change must be theirs, or else their SHA-256. The
first process that needs an index makes it, and others wait: all ranks of a node, and all nodes that share the folder.
"""

import fcntl
import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from equigrad.data.detection.mapped_arrays import Arrays, map_arrays, write_arrays
from equigrad.errors import one_line
from equigrad.files import remove_temporary_files
from equigrad.terminal import printable

CACHE = "EQUIGRAD_CACHE"
MIN_BYTES = 1 << 23
"""Of annotation files: smaller ones are read in less than a second."""

_FORMAT = 1

Data = TypeVar("Data")


class _Source(msgspec.Struct, frozen=True):
    """The state of a file when it was read."""

    size: int
    time: int  # of the last change, in nanoseconds
    sha256: str

    def fits(self, file: Path) -> bool:
        status = file.stat()
        if status.st_size != self.size:
            return False
        return status.st_mtime_ns == self.time or _sha256(file) == self.sha256


class _About(msgspec.Struct):
    format: int
    settings: str
    sources: list[_Source]


def cache_folder() -> Path | None:
    """Where indexes are kept; None if the user wants none."""
    named = os.environ.get(CACHE)
    if named is not None:
        return Path(named) if named else None
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "equigrad")


def indexed(
    files: Sequence[Path],
    settings: str,
    *,
    read: Callable[[], Data],
    pack: Callable[[Data], Arrays],
    unpack: Callable[[Arrays], Data],
    min_bytes: int = MIN_BYTES,
) -> Data:
    """The result of `read`, from the index if there is one; otherwise from the files, and an index is written.

    Args:
        files: all that is read, the largest first; they exist.
        settings: all else that decides what is read.
        read: reads the files.
        pack: to the arrays of the index.
        unpack: from the arrays; ValueError if they cannot be those of `pack`.
        min_bytes: smallest size of all files together for which an index is made.
    """
    folder = cache_folder()
    if folder is None or sum(file.stat().st_size for file in files) < min_bytes:
        return read()
    index = folder / _file_name(files, settings)
    found = _mapped(index, files, settings, unpack, says_why_not=False)
    if found is not None:
        return found
    with _only_one(index):
        found = _mapped(index, files, settings, unpack)  # another process may have written it meanwhile
        return found if found is not None else _made(index, files, settings, read, pack, unpack)


def _file_name(files: Sequence[Path], settings: str) -> str:
    text = "\n".join([*(str(file.resolve()) for file in files), settings])
    return f"{files[0].stem[:60]}-{hashlib.sha256(os.fsencode(text)).hexdigest()[:16]}.index"


def _mapped(
    index: Path,
    files: Sequence[Path],
    settings: str,
    unpack: Callable[[Arrays], Data],
    *,
    says_why_not: bool = True,
) -> Data | None:
    """What an index holds; None if there is none, or none of these files."""
    try:
        text, arrays = map_arrays(index)
        about = msgspec.json.decode(text, type=_About)
        if about.format != _FORMAT or about.settings != settings:
            raise ValueError("it is of another version")
        if len(about.sources) == len(files) and all(map(_Source.fits, about.sources, files)):
            return unpack(arrays)
    except FileNotFoundError:
        return None
    except (ValueError, OSError, msgspec.MsgspecError) as error:
        if says_why_not:
            _say(f"{index}: not usable ({one_line(error)}); the annotations are read again")
    return None


def _made(
    index: Path,
    files: Sequence[Path],
    settings: str,
    read: Callable[[], Data],
    pack: Callable[[Data], Arrays],
    unpack: Callable[[Arrays], Data],
) -> Data:
    """Read the files and write the index, if the cache folder can be written."""
    sources = [_Source(file.stat().st_size, file.stat().st_mtime_ns, _sha256(file)) for file in files]
    data = read()
    try:
        write_arrays(index, _About(_FORMAT, settings, sources), pack(data))
    except OSError as error:
        _say(f"no index of {files[0]} is kept ({one_line(error)}); {CACHE} names another folder")
        return data
    _say(f"{files[0]}: read, and kept as {index} for later starts")
    found = _mapped(index, files, settings, unpack)  # shares its memory with the other ranks, unlike what was read
    return data if found is None else found


@contextmanager
def _only_one(index: Path) -> Iterator[None]:
    """Wait until no other process makes this index; where files cannot be locked, several may make it."""
    with ExitStack() as stack:
        with suppress(OSError):
            index.parent.mkdir(parents=True, exist_ok=True)
            stream = stack.enter_context(index.with_suffix(".lock").open("wb"))
            fcntl.flock(stream.fileno(), fcntl.LOCK_EX)
            remove_temporary_files(index.parent)
        yield


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _say(text: str) -> None:
    print(printable(f"equigrad: {text}"), file=sys.stderr)
