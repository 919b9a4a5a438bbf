"""Arrays in a file that processes map into memory: they cost no time to read, and all processes share the same pages.

The file is one `.npy` array after another, each from a multiple of 64 bytes on. The first is the JSON text of a header.
Nothing in it is trusted: nothing is unpickled, and no array reaches beyond the end of the file.
"""

import math
import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from equigrad.errors import reason
from equigrad.files import atomic_write

Arrays = dict[str, NDArray[Any]]

_ALIGNMENT = 64
_KINDS = "biufS"  # truth values, numbers and bytes; others may be pickled


class _Header(msgspec.Struct):
    about: msgspec.Raw  # what the writer of the file says about it
    names: list[str]  # of the arrays that follow


def write_arrays(file: Path, about: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays and a description of them (`about`); the file appears complete or not at all."""
    header = msgspec.json.encode(_Header(msgspec.Raw(msgspec.json.encode(about)), list(arrays)))
    with atomic_write(file) as stream:
        for array in (np.frombuffer(header, np.uint8), *arrays.values()):
            np.lib.format.write_array(stream, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
            stream.write(bytes(-stream.tell() % _ALIGNMENT))


def map_arrays(file: Path) -> tuple[msgspec.Raw, Arrays]:
    """The description in a file, as JSON, and its arrays, which are read-only.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: why it is not one of `write_arrays`, in one line without the name of the file.
    """
    with file.open("rb") as stream:
        try:
            mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
            header = msgspec.json.decode(_next_array(stream, mapped).tobytes(), type=_Header)
            arrays = {name: _next_array(stream, mapped) for name in header.names}
            if stream.tell() != len(mapped):
                raise ValueError(f"expected {stream.tell():,} bytes, got {len(mapped):,}")
        except Exception as error:  # numpy raises nearly anything on damaged headers
            raise ValueError(f"{reason(error) or type(error).__name__:.200}") from None
    return header.about, arrays


def _next_array(stream: BinaryIO, mapped: mmap.mmap) -> NDArray[Any]:
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError("not an array of version 1.0")
    shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    start, count = stream.tell(), math.prod(shape)
    if dtype.kind not in _KINDS or dtype.itemsize == 0 or (is_fortran and len(shape) > 1):
        raise ValueError(f"expected numbers or bytes in C order, got {dtype}")
    end = start + count * dtype.itemsize
    if any(side < 0 for side in shape) or end > len(mapped):
        raise ValueError(f"an array ends at byte {end:,} of {len(mapped):,}")
    stream.seek(end + -end % _ALIGNMENT)
    array: NDArray[Any] = np.frombuffer(mapped, dtype, count, start) if count else np.zeros(0, dtype)
    return array.reshape(shape)
