"""Height and width of images, read from the headers of their files: no pixel is decoded."""

import io
import warnings
from pathlib import Path
from typing import BinaryIO

from PIL import Image

from equigrad.data.images.stores import FolderStore, ImageStore


def image_size(file: Path | BinaryIO) -> tuple[int, int]:
    """Height and width; OSError if it is no image, or one that Pillow takes for a decompression bomb."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(file) as image:
                return image.height, image.width
    except Exception as error:  # Pillow's readers raise nearly anything on damaged files
        raise OSError(f"cannot read the image ({error})") from None


def file_image_size(file: Path) -> tuple[int, int]:
    """Height and width of an image file; the OSError names the file."""
    try:
        return image_size(file)
    except OSError as error:
        raise OSError(f"{file}: {error}") from None


def stored_image_size(store: ImageStore, path: str) -> tuple[int, int]:
    """Height and width of an image in a store; the FileNotFoundError or OSError names the image."""
    if store.size(path) is None:
        raise FileNotFoundError(f"{store.name(path)}: no such image")
    try:
        # From a folder only the header is read, not the whole file.
        return image_size(store.root / path if isinstance(store, FolderStore) else io.BytesIO(store.content(path)))
    except OSError as error:
        raise OSError(f"{store.name(path)}: {error}") from None
