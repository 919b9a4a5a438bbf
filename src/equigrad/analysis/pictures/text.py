"""Text in pictures: names from data, cut to one line that fits, in a font that has their letters.

A name in any script can be read: where no font of the system has a letter, its code point stands in its place, and a
note says so once.
"""

import sys
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont

_LONGEST = 60  # characters
_BESIDE_NAMES = "0123456789ABCDEFU+.,:%()… "  # scores and code points are drawn in the font of the name
_VARIATION_SELECTORS = range(0xFE00, 0xFE10)  # they choose between forms of an emoji


def font(text: str, size: int) -> "FreeTypeFont":
    """A font `size` pixels high for a text: DejaVu Sans, or one of the system that has more of its letters."""
    return _loaded(font_file(text), size)


def one_line(text: str) -> str:
    """The text without line breaks, control characters and invisible ones, cut at 60 characters."""
    visible = [" " if letter.isspace() or ord(letter) < 32 else letter for letter in text if _is_drawn(letter)]
    plain = " ".join("".join(visible).split())
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1].rstrip() + "…"


@lru_cache(maxsize=4096)
def legible(text: str) -> str:
    """The text in one line; letters that its font does not have become code points, such as `U+732B`."""
    plain = one_line(text)
    letters = _letters(font_file(plain))
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
    shown, chosen = text, font(text, size)
    while shown and chosen.getlength(shown) > width:
        text = text[:-1]
        shown = text.rstrip() + "…" if text else ""
    return shown


def _is_drawn(letter: str) -> bool:
    """Whether a letter is drawn or parts words; zero-width joiners and marks of direction are neither."""
    is_spacing = letter.isspace() or ord(letter) < 32
    return (letter.isprintable() or is_spacing) and ord(letter) not in _VARIATION_SELECTORS


@lru_cache(maxsize=4096)
def font_file(text: str) -> Path:
    """The font with the most letters of a text, DejaVu Sans if no other has more."""
    needed, beside = ({ord(letter) for letter in letters} for letters in (text, _BESIDE_NAMES))
    if needed <= _letters(_default_font()):
        return _default_font()
    suitable = [file for file in _system_fonts() if beside <= _letters(file)]
    return max([_default_font(), *suitable], key=lambda file: len(needed & _letters(file)))


_noted: list[str] = []


def _note_missing_fonts(letter: str) -> None:
    """Say once in a process that letters are missing, and which fonts have most of them."""
    if not _noted:
        _noted.append(letter)
        print(
            f"note: no font of this system has {letter} of a name, so pictures show such letters by their numbers; "
            "fonts that have most of them: Noto Sans CJK, Symbola (Debian: fonts-noto-cjk, fonts-symbola)",
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
def _letters(file: Path) -> frozenset[int]:
    """The code points that a font has; none for a font that cannot be drawn, such as one of coloured bitmaps."""
    from matplotlib.ft2font import FT2Font

    try:
        _loaded(file, 18)
        return frozenset(FT2Font(str(file)).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()


@cache
def _loaded(file: Path, size: int) -> "FreeTypeFont":
    from PIL import ImageFont

    return ImageFont.truetype(file, size)
