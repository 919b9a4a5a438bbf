"""Reading `.npz` files of which nothing is trusted: nothing is unpickled, and no array takes more memory than it may.

An `.npz` file is a zip archive. Its index says how long each array is, and each array's own header says so again. Both
are compared before memory is taken, because a file of a hundred bytes can claim any length.
"""

import math
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equigrad.errors import reason

_SUFFIX = ".npy"
_KINDS = "biufSU"  # truth values, numbers and text; others may be pickled
_ALWAYS_ALLOWED = 1 << 27  # bytes of an array that are read however well they were compressed
_MAX_COMPRESSION = 200  # above that: real data is compressed less, a file of zeros up to a thousandfold


def read_npz(file: Path, names: Collection[str] | None = None) -> dict[str, NDArray[Any]]:
    """The arrays of an `.npz` file.

    Args:
        file: an existing file.
        names: names of the arrays to read; None reads all.

    Raises:
        ValueError: one line that names the file and what is wrong with it.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            infos = {info.filename.removesuffix(_SUFFIX): info for info in archive.infolist()}
            if missing := sorted(set(names or ()) - infos.keys()):
                raise ValueError(f"expected an array named {missing[0]!r}, found {', '.join(sorted(infos)) or 'none'}")
            return {name: _array(archive, infos[name]) for name in infos if names is None or name in names}
    except Exception as error:  # zipfile and numpy raise nearly anything on damaged files
        text = reason(error) or type(error).__name__
        raise ValueError(f"{file}: not a readable .npz file of plain arrays ({text:.200})") from None


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    if info.file_size > max(_ALWAYS_ALLOWED, _MAX_COMPRESSION * info.compress_size):
        raise ValueError(f"{info.filename}: {info.file_size:,} bytes in {info.compress_size:,} are a zip bomb")
    with archive.open(info) as stream:
        shape, dtype = _header(stream)
        claimed, stored = stream.tell() + math.prod(shape) * dtype.itemsize, info.file_size
    if dtype.kind not in _KINDS or dtype.itemsize == 0:
        raise ValueError(f"{info.filename}: expected numbers or text, got {dtype}")
    if any(side < 0 for side in shape) or claimed != stored:
        raise ValueError(f"{info.filename}: its header claims {claimed:,} bytes, but there are {stored:,}")
    with archive.open(info) as stream:
        array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return array


def _header(stream: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an array, which its first bytes state."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    return shape, dtype
