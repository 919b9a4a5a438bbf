"""Widths and heights of images whose annotations do not tell them: from a CSV file, or from the images' headers."""

import io
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from equigrad.data.detection.formats.csv_blocks import csv_blocks
from equigrad.data.images.stores import FolderStore, ImageStore, open_store
from equigrad.files import write_atomically

Sizes = NDArray[np.int32]  # (I, 2) width, height


def read_image_sizes(file: str | os.PathLike[str], image_names: NDArray[np.bytes_]) -> Sizes:
    """Sizes of some images.

    Args:
        file: CSV file with the columns ImageID, Width and Height; it may have other images too.
        image_names: ImageIDs, (I,), ascending, at least one.
    """
    file = Path(file)
    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such file; expected the columns ImageID, Width and Height")
    sizes = np.zeros((len(image_names), 2), np.int32)
    for block in csv_blocks(file, {"ImageID": image_names.dtype.str[1:], "Width": "f8", "Height": "f8"}):
        for name in ("Width", "Height"):
            is_whole = (block[name] >= 1) & (block[name] < 2**31) & (block[name] % 1 == 0)
            block.require(is_whole, name, "a whole number of pixels")
        places = np.minimum(np.searchsorted(image_names, block["ImageID"]), len(image_names) - 1)
        known = image_names[places] == block["ImageID"]
        sizes[places[known]] = np.stack([block["Width"], block["Height"]], 1)[known]
    is_missing = sizes[:, 0] == 0
    if is_missing.any():
        raise ValueError(f"{file}: there is no row for the image {image_names[int(is_missing.argmax())].decode()}")
    return sizes


def measure_image_sizes(images: str | os.PathLike[str], paths: Sequence[str]) -> Sizes:
    """Sizes of images in a folder or `.zip`; nothing is decoded."""
    store = open_store(images)
    return np.array([_size_in_header(store, path) for path in paths], dtype=np.int32).reshape(-1, 2)


def write_image_sizes(file: str | os.PathLike[str], image_names: Sequence[str], sizes: Sizes) -> Path:
    """Keep what was measured, for `read_image_sizes`; the file appears complete or not at all."""
    lines = [f"{name},{width},{height}\n" for name, (width, height) in zip(image_names, sizes.tolist(), strict=True)]
    write_atomically(Path(file), "".join(["ImageID,Width,Height\n", *lines]).encode())
    return Path(file)


def _size_in_header(store: ImageStore, path: str) -> tuple[int, int]:
    if store.size(path) is None:
        raise FileNotFoundError(f"{store.name(path)}: no such image")
    try:
        source = store.root / path if isinstance(store, FolderStore) else io.BytesIO(store.content(path))
        with Image.open(source) as image:
            return image.size
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise OSError(f"{store.name(path)}: cannot read the size of the image ({error})") from error
