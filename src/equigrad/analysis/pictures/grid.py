"""Pictures in a grid: a row for each run, a column for each image."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from equigrad.analysis.pictures.text import draw_text, fitted

if TYPE_CHECKING:
    from PIL.Image import Image

_MARGIN = 8


def picture_grid(rows: Mapping[str, Sequence["Image"]], cell_height: int = 480) -> "Image":
    """All pictures at one height, each row below its heading."""
    from PIL import Image

    scaled = {heading: [_at_height(picture, cell_height) for picture in row] for heading, row in rows.items()}
    text_size = max(cell_height // 20, 14)
    row_height = 2 * text_size + cell_height + _MARGIN
    width = max(sum(picture.width + _MARGIN for picture in row) for row in scaled.values()) - _MARGIN
    canvas = Image.new("RGB", (width, row_height * len(scaled) - _MARGIN), "white")
    for number, (heading, row) in enumerate(scaled.items()):
        top, left = number * row_height, 0
        text = fitted(heading, width, text_size)
        draw_text(canvas, (0, top + text_size), text, text_size, "#111827", is_middle=True)
        for picture in row:
            canvas.paste(picture, (left, top + 2 * text_size))
            left += picture.width + _MARGIN
    return canvas


def _at_height(picture: "Image", height: int) -> "Image":
    return picture.resize((max(round(picture.width * height / picture.height), 1), height))
