"""Pictures of one image beside each other, such as the predictions of two runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from equigrad.analysis.pictures.text import draw_text, fitted

if TYPE_CHECKING:
    from PIL.Image import Image

_MARGIN = 16


def side_by_side(headings: Sequence[str], pictures: Sequence["Image"]) -> "Image":
    """The pictures from left to right, unscaled, each with its heading above."""
    from PIL import Image

    tallest = max(picture.height for picture in pictures)
    text_size = max(tallest // 40, 18)
    heading_height = 2 * text_size
    width = sum(picture.width for picture in pictures) + _MARGIN * (len(pictures) - 1)
    canvas = Image.new("RGB", (width, heading_height + tallest), "white")
    left = 0
    for heading, picture in zip(headings, pictures, strict=True):
        text = fitted(heading, picture.width, text_size)
        draw_text(canvas, (left, heading_height // 2), text, text_size, "#111827", is_middle=True)
        canvas.paste(picture, (left, heading_height))
        left += picture.width + _MARGIN
    return canvas
