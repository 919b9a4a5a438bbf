"""Text in pictures: names from data, cut to one line that fits."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont

_LONGEST = 60  # characters


@cache
def font(size: int) -> "FreeTypeFont":
    """The font of all pictures, `size` pixels high."""
    import matplotlib
    from PIL import ImageFont

    return ImageFont.truetype(Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf"), size)


def one_line(text: str) -> str:
    """The text without line breaks and control characters, cut at 60 characters."""
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    plain = " ".join(printable.split())
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1].rstrip() + "…"


def fitted(text: str, width: float, size: int) -> str:
    """The text in one line of this font size, shortened until it is no wider than `width` pixels."""
    text = one_line(text)
    shown = text
    while shown and font(size).getlength(shown) > width:
        text = text[:-1]
        shown = text.rstrip() + "…" if text else ""
    return shown
