"""Opening image files of which nothing is trusted."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
from PIL import Image, UnidentifiedImageError

from equigrad.errors import reason

# Not all that Pillow knows: for some formats, such as EPS, it starts other programs.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
MAX_FILE_BYTES = 1 << 28  # of an image file: some formats are read as a whole before anything is known of them


# Pillow also logs, and Python prints what nobody handles.
logging.getLogger("PIL").addHandler(logging.NullHandler())


@contextmanager
def opened_image(file: Path | IO[bytes]) -> Iterator[Image.Image]:
    """An image whose pixels are decoded when they are used; whatever goes wrong here or inside is an OSError.

    Pillow itself refuses images with more than 178,956,970 pixels.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about large images, and about metadata that nobody reads
            with Image.open(file, formats=FORMATS) as image:
                yield image
    except UnidentifiedImageError:  # its message would show the stream object
        raise OSError(f"cannot read the image (not one of {', '.join(FORMATS)})") from None
    except Exception as error:  # Pillow's readers raise nearly anything on damaged files
        raise OSError(f"cannot read the image ({reason(error) or type(error).__name__})") from None


def to_rgb(image: Image.Image) -> Image.Image:
    """The image as a model sees it, 8 bits a channel: colours without alpha, grey as three equal channels.

    Pixels stay where they are stored: EXIF's rotation is not applied, because annotations are in stored pixels.
    """
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG"):  # Pillow would clip at 255
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
    return image.convert("RGB")


def check_file_size(size: int) -> None:
    """Raise OSError for a file that is too large for an image."""
    if size > MAX_FILE_BYTES:
        raise OSError(f"expected an image file of at most {MAX_FILE_BYTES:,} bytes, got {size:,}")
