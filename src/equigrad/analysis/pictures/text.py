"""Text in pictures: names from data, cut to one line that fits, in a font that has their letters.

A name in any script can be read: where no font of the system has a letter, its code point stands in its place, and a
note says so once. Emoji come in colour, from a font of their own.
"""

import sys
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from equigrad.analysis.pictures.emoji import EmojiFont, emoji_font, emoji_picture

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont

_LONGEST = 60  # characters
_BESIDE_NAMES = "0123456789ABCDEFU+.,:%()… "  # scores and code points are drawn in the font of the name
_VARIATION_SELECTORS = range(0xFE00, 0xFE10)  # they choose between forms of an emoji


def draw_text(
    image: "Image", corner: tuple[float, float], text: str, size: int, fill: str, *, is_middle: bool = False
) -> None:
    """Draw a text on an RGB image, in the font that has its letters, with emoji in colour.

    Args:
        image: changed in place.
        corner: left and top of the text.
        text: one legible line.
        size: height of the font in pixels.
        fill: colour of the letters.
        is_middle: `corner` is left and middle.
    """
    from PIL import ImageDraw

    draw, (left, top) = ImageDraw.Draw(image), corner
    chosen = _font(text, size)
    middle = top if is_middle else top + sum(chosen.getmetrics()) / 2
    for part, emoji in _parts(text):
        if emoji is None:
            draw.text((left, top), part, fill=fill, font=chosen, anchor="lm" if is_middle else "la")
            left += chosen.getlength(part)
        else:
            picture = emoji_picture(emoji.font, part, size)
            image.paste(picture, (round(left), round(middle - size / 2)), picture)
            left += picture.width


def text_width(text: str, size: int) -> float:
    """How wide `draw_text` draws a text, in pixels."""
    chosen = _font(text, size)
    return sum(
        chosen.getlength(part) if emoji is None else emoji_picture(emoji.font, part, size).width
        for part, emoji in _parts(text)
    )


def one_line(text: str) -> str:
    """The text without line breaks, control characters and invisible ones, cut at 60 characters."""
    visible = [" " if letter.isspace() or ord(letter) < 32 else letter for letter in text if _is_drawn(letter)]
    plain = " ".join("".join(visible).split())
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1].rstrip() + "…"


@lru_cache(maxsize=4096)
def legible(text: str, *, with_emoji: bool = True) -> str:
    """The text in one line; letters that its font does not have become code points, such as `U+732B`.

    Args:
        text: any.
        with_emoji: emoji are drawn in colour, as `draw_text` does.
    """
    plain = one_line(text)
    letters = _letters(font_file(plain)) | (_emoji_letters(plain) if with_emoji else frozenset())
    if missing := [letter for letter in plain if ord(letter) not in letters]:
        _note_missing_fonts(f"U+{ord(missing[0]):04X}")
    return one_line("".join(letter if ord(letter) in letters else f" U+{ord(letter):04X} " for letter in plain))


def is_in_default_font(text: str) -> bool:
    """Whether DejaVu Sans has all letters of a text."""
    return {ord(letter) for letter in text if _is_drawn(letter) and not letter.isspace()} <= _letters(_default_font())


def category_text(name: str, label: int) -> str:
    """The name of a category; with its label before it where only code points can be shown, which are hard to tell."""
    shown = legible(name)
    return shown if shown and shown == one_line(name) else f"{label}: {shown}".removesuffix(": ")


def fitted(text: str, width: float, size: int) -> str:
    """The text in one legible line of this font size, shortened until it is no wider than `width` pixels."""
    text = legible(text)
    if text_width(text, size) <= width:
        return text

    def shortened(num_kept: int) -> str:
        return text[:num_kept].rstrip() + "…"

    num_kept = bisect_right(range(1, len(text)), width, key=lambda kept: text_width(shortened(kept), size))
    return shortened(num_kept) if num_kept else ""


def _is_drawn(letter: str) -> bool:
    """Whether a letter is drawn or parts words; zero-width joiners and marks of direction are neither."""
    is_spacing = letter.isspace() or ord(letter) < 32
    return (letter.isprintable() or is_spacing) and ord(letter) not in _VARIATION_SELECTORS


@lru_cache(maxsize=4096)
def font_file(text: str) -> Path:
    """The font with the most letters of a text, DejaVu Sans if no other has more."""
    needed, beside = ({ord(letter) for letter in letters} for letters in (text, _BESIDE_NAMES))
    needed -= _emoji_letters(text)
    if needed <= _letters(_default_font()):
        return _default_font()
    suitable = [file for file in _system_fonts() if beside <= _letters(file)]
    return max([_default_font(), *suitable], key=lambda file: len(needed & _letters(file)))


def _parts(text: str) -> Iterator[tuple[str, EmojiFont | None]]:
    """The text cut where emoji begin and end; each part with the font of its emoji, or None."""
    letters = _emoji_letters(text)
    if not letters:
        yield text, None
        return
    for is_emoji, part in groupby(text, lambda letter: ord(letter) in letters):
        yield "".join(part), _emoji() if is_emoji else None


def _emoji_letters(text: str) -> frozenset[int]:
    """Those of a text that are drawn in colour: DejaVu Sans does not have them, and a font of emoji does."""
    foreign = frozenset(map(ord, text)) - _letters(_default_font())
    emoji = _emoji() if foreign else None
    return frozenset() if emoji is None else foreign & emoji.letters


_noted: list[str] = []


def _note_missing_fonts(letter: str) -> None:
    """Say once in a process that letters are missing, and which fonts have most of them."""
    if not _noted:
        _noted.append(letter)
        print(
            f"note: no font of this system has {letter} of a name, so pictures show such letters by their numbers; "
            "fonts that have most of them: Noto Sans CJK, Noto Color Emoji (Debian: fonts-noto-cjk, "
            "fonts-noto-color-emoji)",
            file=sys.stderr,
        )


@cache
def _default_font() -> Path:
    import matplotlib

    return Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")


@cache
def _system_fonts() -> list[Path]:
    from matplotlib.font_manager import findSystemFonts

    # Fonts of last resort draw a box for whatever they are asked.
    return sorted(Path(file) for file in findSystemFonts() if "lastresort" not in Path(file).name.lower())


@cache
def _emoji() -> EmojiFont | None:
    return emoji_font(_system_fonts())


@cache
def _letters(file: Path) -> frozenset[int]:
    """The code points that a font has; none for a font that cannot be drawn, such as one of coloured bitmaps."""
    from matplotlib.ft2font import FT2Font

    try:
        _loaded(file, 18)
        return frozenset(FT2Font(str(file)).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()


def _font(text: str, size: int) -> "FreeTypeFont":
    """DejaVu Sans, or a font of the system that has more letters of a text."""
    return _loaded(font_file(text), size)


@cache
def _loaded(file: Path, size: int) -> "FreeTypeFont":
    from PIL import ImageFont

    return ImageFont.truetype(file, size)
