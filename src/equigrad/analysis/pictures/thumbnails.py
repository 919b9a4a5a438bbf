"""Small pictures for a page."""

import io
from typing import TYPE_CHECKING

from equigrad.analysis.pictures.predictions import scaled

if TYPE_CHECKING:
    from PIL.Image import Image


def thumbnail(image: "Image", side: int) -> bytes:
    """A JPEG whose longer side has at most `side` pixels; small images are enlarged by a whole factor."""
    content = io.BytesIO()
    scaled(image.convert("RGB"), side).save(content, "JPEG", quality=82, optimize=True)
    return content.getvalue()
