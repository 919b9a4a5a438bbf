"""Emoji in colour, from a font of the system that has them.

Such a font holds pictures of one size, so that an emoji is drawn at that size and then scaled.
"""

from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont

_TABLES = ("CBDT", "sbix", "COLR")  # where a font keeps coloured letters
_SIZES = (109, 160, 136, 128, 96, 64, 48, 32)  # of the pictures in such fonts; Noto's have 109 pixels
_PART_OF_EMOJI = {0x200D, 0x20E3, *range(0xFE00, 0xFE10)}  # joins emoji, is around a digit, or chooses a form


class EmojiFont(NamedTuple):
    """A font of coloured pictures."""

    font: "FreeTypeFont"
    letters: frozenset[int]


def emoji_font(files: Iterable[Path]) -> EmojiFont | None:
    """The first font with coloured letters above U+2000; None if there is no such font."""
    return next((found for file in files if (found := _opened(file)) is not None), None)


@cache
def _opened(file: Path) -> EmojiFont | None:
    from fontTools.ttLib import TTFont, TTLibError

    try:
        with TTFont(file, lazy=True, fontNumber=0) as tables:
            if not any(name in tables for name in _TABLES):
                return None
            letters = frozenset(letter for letter in tables.getBestCmap() or () if letter >= 0x2000)
    except (OSError, TTLibError, ValueError, AssertionError):
        return None
    font = _at_its_size(file)
    return None if font is None or not letters else EmojiFont(font, letters - _PART_OF_EMOJI)


def _at_its_size(file: Path) -> "FreeTypeFont | None":
    from PIL import ImageFont

    for size in _SIZES:
        try:
            return ImageFont.truetype(file, size)
        except OSError:  # the font has no pictures of this size
            continue
    return None


@lru_cache(maxsize=1024)
def emoji_picture(font: "FreeTypeFont", text: str, height: int) -> "Image":
    """Emoji beside each other, as a transparent picture of this height."""
    from PIL import Image, ImageDraw

    left, top, right, bottom = (round(edge) for edge in font.getbbox(text))
    picture = Image.new("RGBA", (max(right - left, 1), max(bottom - top, 1)))
    ImageDraw.Draw(picture).text((-left, -top), text, font=font, embedded_color=True)
    return picture.resize((max(round(picture.width * height / picture.height), 1), height), Image.Resampling.LANCZOS)
