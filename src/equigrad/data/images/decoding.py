"""Opening untrusted image files, and rotating images by their EXIF orientation."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError

from equigrad.errors import reason

# Not all formats of Pillow: for some, such as EPS, it starts other programs.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
_ROTATIONS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_QUARTER_TURNS = {_ROTATIONS[orientation] for orientation in (5, 6, 7, 8)}  # which swap height and width
MAX_FILE_BYTES = 1 << 28  # of an image file: some formats are read as a whole before anything is known of them


# Pillow also logs, and Python prints log records that have no handler.
logging.getLogger("PIL").addHandler(logging.NullHandler())


@contextmanager
def opened_image(file: Path | IO[bytes]) -> Iterator[Image.Image]:
    """An image whose pixels are decoded when they are used; whatever goes wrong here or inside is an OSError.

    Pillow itself refuses images with more than 178,956,970 pixels.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about large images, and about metadata that is not used
            with Image.open(file, formats=FORMATS) as image:
                yield image
    except UnidentifiedImageError:  # its message would show the stream object
        raise OSError(f"cannot read the image (not one of {', '.join(FORMATS)})") from None
    except Exception as error:  # Pillow's readers raise nearly anything on damaged files
        raise OSError(f"cannot read the image ({reason(error) or type(error).__name__})") from None


def to_rgb(image: Image.Image, stated: tuple[int, int] | None = None) -> Image.Image:
    """The image as a model sees it, 8 bits a channel: colours without alpha, grey as three equal channels, upright.

    Args:
        image: as it is stored.
        stated: height and width in its annotations; see `rotation`.
    """
    turned = rotation(image, stated)
    if turned is not None:
        image = image.transpose(turned)
    elif image.format == "JPEG" and image.mode == "RGB":  # most photographs: converting would copy the pixels
        image.load()
        return image
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG"):  # Pillow would clip at 255
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
    return image.convert("RGB")


def rotation(image: Image.Image, stated: tuple[int, int] | None = None) -> Image.Transpose | None:
    """How EXIF says that a stored image is turned, as phones do; None leaves it as it is.

    Annotations are of the image as people see it. Some tools write them for the stored pixels: `stated`, the height and
    width in the annotations, shows that where the two sizes differ, and then the image is left as it is.
    """
    # Pillow rotates TIFF files itself, and would decode all pixels of a PNG file to find its EXIF data.
    if image.format == "TIFF" or (image.format == "PNG" and "exif" not in image.info):
        return None
    try:
        turned = _ROTATIONS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # damaged metadata of an image that may be fine
        return None
    is_stored = stated == (image.height, image.width) and image.height != image.width
    return None if turned in _QUARTER_TURNS and is_stored else turned


def size_of(image: Image.Image, stated: tuple[int, int] | None = None) -> tuple[int, int]:
    """Height and width that `to_rgb` gives the image."""
    turned = rotation(image, stated)
    return (image.width, image.height) if turned in _QUARTER_TURNS else (image.height, image.width)


def check_file_size(size: int) -> None:
    """Raise OSError for a file that is too large for an image."""
    if size > MAX_FILE_BYTES:
        raise OSError(f"expected an image file of at most {MAX_FILE_BYTES:,} bytes, got {size:,}")
