"""Widths and heights of OpenImages' images, which its annotations do not have: measured once and kept in a CSV file."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from equigrad.data.detection.formats.csv_blocks import csv_blocks
from equigrad.data.images.sizes import stored_image_size
from equigrad.data.images.stores import open_store
from equigrad.files import write_atomically

Sizes = NDArray[np.int32]  # (I, 2) width, height


def read_image_sizes(file: str | os.PathLike[str], image_names: NDArray[np.bytes_]) -> Sizes:
    """Read the sizes of the named images.

    Args:
        file: CSV file with the columns ImageID, Width and Height; it may have other images too.
        image_names: ImageIDs, (I,), ascending, at least one.
    """
    file = Path(file)
    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such file; expected a CSV file with the columns ImageID, Width and Height")
    sizes = np.zeros((len(image_names), 2), np.int32)
    for block in csv_blocks(file, {"ImageID": image_names.dtype.str[1:], "Width": "f8", "Height": "f8"}):
        for name in ("Width", "Height"):
            is_whole = (block[name] >= 1) & (block[name] < 2**31) & (block[name] == np.floor(block[name]))
            block.require(is_whole, name, "a whole number of pixels")
        indices = np.minimum(np.searchsorted(image_names, block["ImageID"]), len(image_names) - 1)
        known = image_names[indices] == block["ImageID"]
        sizes[indices[known]] = np.stack([block["Width"], block["Height"]], 1)[known]
    is_missing = sizes[:, 0] == 0
    if is_missing.any():
        raise ValueError(f"{file}: there is no row for the image {image_names[int(is_missing.argmax())].decode()}")
    return sizes


def measure_image_sizes(images: str | os.PathLike[str], paths: Sequence[str]) -> Sizes:
    """Read the sizes of images in a folder or `.zip` from their headers."""
    store = open_store(images)
    sizes = np.array([stored_image_size(store, path) for path in paths], dtype=np.int32).reshape(-1, 2)
    return np.ascontiguousarray(sizes[:, ::-1])


def write_image_sizes(file: str | os.PathLike[str], image_names: Sequence[str], sizes: Sizes) -> Path:
    """Write measured sizes for `read_image_sizes`; the file appears complete or not at all."""
    lines = [f"{name},{width},{height}\n" for name, (width, height) in zip(image_names, sizes.tolist(), strict=True)]
    write_atomically(Path(file), "".join(["ImageID,Width,Height\n", *lines]).encode())
    return Path(file)
