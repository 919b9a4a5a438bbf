"""The size of an image file, from its header alone."""

import warnings
from pathlib import Path
from typing import BinaryIO

from PIL import Image


def image_size(file: Path | BinaryIO) -> tuple[int, int]:
    """Height and width; OSError if it is no image, or one that Pillow takes for a decompression bomb."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(file) as image:
                return image.height, image.width
    except Exception as error:  # Pillow's readers raise nearly anything on damaged files
        raise OSError(f"cannot read the image ({error})") from None


def file_size(file: Path) -> tuple[int, int]:
    """Height and width of a file, which errors name."""
    try:
        return image_size(file)
    except OSError as error:
        raise OSError(f"{file}: {error}") from None
