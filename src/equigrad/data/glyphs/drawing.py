"""Characters as categories, chosen so that no two look alike and drawn with the fonts that ship with matplotlib.

Thousands of characters are available and many are near copies (o and O, Latin A and Greek Alpha, b and a mirrored d).
Categories are chosen greedily: each is the character farthest from all chosen before it, so fewer categories are also
more distinct. Distance is measured on small bitmaps of equal size, over all relative rotations that two drawings can
have in a scene and over mirroring, because training flips images.
"""

import functools
import math
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter, ImageFont

Bitmap = NDArray[np.uint8]  # (h, w) ink, 0..255, cropped to the glyph

MAX_ROTATION = 15.0  # degrees in either direction; two drawings then differ by at most twice that
MAX_STRETCH = 0.1  # change of the aspect ratio, likewise
MIN_DISTANCE = 0.11  # between drawings of different categories; 0: the same bitmap, 1: no common ink
BITMAP_SIDE = 96  # longer side of a bitmap

_MARGIN = 0.035  # a distance changes by less than this when the other of the two drawings is rotated
_MAIN_FONTS = ("DejaVuSans", "STIXGeneral")
_OTHER_FONTS = ("DejaVuSerif", "DejaVuSans-Bold", "DejaVuSansMono", "DejaVuSerif-Bold", "STIXGeneralBol")

_LOOK_ALIKES = (
    "BRAILLE",
    "HEXAGRAM FOR",
    "TETRAGRAM FOR",
    "MODIFIER LETTER",
)  # these differ only in details

_CANVAS = 64  # a descriptor is the bitmap at half size on a square canvas, averaged over cells of 4 x 4
_CELL = 4
_BLOCK = 32
_BLUR = 1.5  # strokes of different weight still overlap
_TURNS = np.linspace(-2, 2, 5) * MAX_ROTATION
_STRETCHES = (1 - MAX_STRETCH, 1.0, 1 + MAX_STRETCH)


@dataclass(frozen=True)
class GlyphSet:
    """Categories 0 … C-1: the character of each and its drawings, one for each font that keeps categories distinct."""

    characters: tuple[str, ...]
    drawings: tuple[tuple[Bitmap, ...], ...]

    def __len__(self) -> int:
        return len(self.characters)

    @property
    def names(self) -> tuple[str, ...]:
        """Unicode names in snake case, such as `greek_small_letter_omega`."""
        return tuple(_category_name(character) for character in self.characters)


@dataclass(frozen=True)
class _Descriptors:
    """n bitmaps as small images: (n, 256) whole numbers 0..127, and their lengths (n,)."""

    whole: NDArray[np.float32]
    norms: NDArray[np.float32]


@functools.lru_cache(maxsize=8)
def choose_glyphs(num_categories: int, num_fonts: int = 3) -> GlyphSet:
    """Choose the most distinct characters, each drawn in up to `num_fonts` (at most 6) fonts.

    No two drawings of different categories are nearer than `MIN_DISTANCE`, which is possible for slightly more than
    1,203 categories. The choice is the same on every machine with the same fonts.
    """
    if num_categories < 1 or not 1 <= num_fonts <= 1 + len(_OTHER_FONTS):
        raise ValueError(f"num_categories must be >= 1 and num_fonts in 1..6, got {num_categories} and {num_fonts}")
    candidates = list(_candidates())
    characters = [candidates[index] for index in _order().first(num_categories)]
    drawings = [[_candidates()[character]] for character in characters]
    for font_name in _OTHER_FONTS[: num_fonts - 1]:
        _add_font(drawings, characters, font_name)
    return GlyphSet(tuple(characters), tuple(tuple(category) for category in drawings))


class _FarthestFirst:
    """Orders bitmaps so that each is the farthest from all before it; computed only as far as needed."""

    def __init__(self, bitmaps: list[Bitmap]) -> None:
        self.bitmaps, self.upright = bitmaps, _upright(bitmaps)
        self.chosen: list[int] = []
        self.nearest = np.ones(len(bitmaps), dtype=np.float32)  # distance to the chosen ones; 0 once chosen or rejected

    def first(self, count: int) -> list[int]:
        """Indices of the first `count`; ValueError if only look-alikes are left."""
        while len(self.chosen) < count:
            farthest = int(self.nearest.argmax())
            if self.nearest[farthest] < MIN_DISTANCE:
                raise ValueError(
                    f"num_categories must be at most {len(self.chosen)}, got {count}: all other characters look alike"
                )
            distances = _distances(self.bitmaps[farthest], self.upright)
            # Distance is not quite symmetric: with this one rotated and the chosen ones upright it may be too near.
            if distances[self.chosen].min(initial=1) >= MIN_DISTANCE:
                self.chosen.append(farthest)
                self.nearest = np.minimum(self.nearest, distances)
            self.nearest[farthest] = 0
        return self.chosen[:count]


def _add_font(drawings: list[list[Bitmap]], characters: list[str], font_name: str) -> None:
    """Add a drawing of each character in one more font, unless it is too near to another category."""
    added = {index: bitmap for index, bitmap in enumerate(_draw_all(font_name, characters)) if bitmap is not None}
    owners = np.array([index for index, category in enumerate(drawings) for _ in category] + list(added))
    upright = _upright([bitmap for category in drawings for bitmap in category] + list(added.values()))
    for index, bitmap in added.items():
        others = _distances(bitmap, upright)[owners != index]
        if others.min(initial=1) >= MIN_DISTANCE + _MARGIN:
            drawings[index].append(bitmap)


def _distances(bitmap: Bitmap, upright: _Descriptors) -> NDArray[np.float32]:
    """(n,) one minus the cosine between the bitmap in its best pose and each of the upright descriptors."""
    poses = _poses(bitmap)
    cosines = _products(upright.whole, poses.whole)
    cosines /= upright.norms[:, None]
    cosines /= poses.norms
    distances: NDArray[np.float32] = 1 - cosines.max(1)
    return distances


def _products(rows: NDArray[np.float32], columns: NDArray[np.float32]) -> NDArray[np.float32]:
    """`rows @ columns.T`. Sums of integers below 2^24 are exact in any order, so all machines make the same choice.

    In blocks too small for BLAS to split over threads: on a busy machine, thousands of small products would wait longer
    for the slower thread than they take.
    """
    products = np.empty((len(rows), len(columns)), dtype=np.float32)
    whole = len(rows) // _BLOCK * _BLOCK
    blocks = rows[:whole].reshape(-1, _BLOCK, rows.shape[1])
    np.matmul(blocks, columns.T, out=products[:whole].reshape(-1, _BLOCK, len(columns)))
    products[whole:] = rows[whole:] @ columns.T
    return products


def _upright(bitmaps: Iterable[Bitmap]) -> _Descriptors:
    return _describe([_cells(_on_canvas(bitmap)) for bitmap in bitmaps])


def _poses(bitmap: Bitmap) -> _Descriptors:
    canvases = [_on_canvas(bitmap, stretch) for stretch in _STRETCHES]
    posed = [_cells(canvas.rotate(turn, Image.Resampling.BILINEAR)) for canvas in canvases for turn in _TURNS]
    return _describe(posed + [cells[:, ::-1] for cells in posed])


def _on_canvas(bitmap: Bitmap, stretch: float = 1.0) -> Image.Image:
    height, width = (math.ceil(side / 2) for side in bitmap.shape)
    small = Image.fromarray(bitmap).resize((round(width * stretch), height), Image.Resampling.BILINEAR)
    canvas = Image.new("L", (_CANVAS, _CANVAS))
    canvas.paste(small, ((_CANVAS - small.width) // 2, (_CANVAS - small.height) // 2))
    return canvas.filter(ImageFilter.GaussianBlur(_BLUR))


def _cells(canvas: Image.Image) -> Bitmap:
    return np.asarray(canvas.reduce(_CELL))


def _describe(cells: list[Bitmap]) -> _Descriptors:
    whole = (np.stack(cells).reshape(len(cells), -1) >> 1).astype(np.float32)
    return _Descriptors(whole, np.sqrt(np.square(whole).sum(1)))


@functools.lru_cache(maxsize=1)
def _order() -> _FarthestFirst:
    # Shared by all numbers of categories: a smaller choice is the beginning of a larger one.
    return _FarthestFirst(list(_candidates().values()))


@functools.lru_cache(maxsize=1)
def _candidates() -> dict[str, Bitmap]:
    """Characters that can be a category, `A` first, each drawn in the first main font that has it."""
    candidates: dict[str, Bitmap] = {}
    for font_name in _MAIN_FONTS:
        characters = [c for c in ["A", *sorted(_charmap(font_name))] if c not in candidates and _is_basic(c)]
        drawn = zip(characters, _draw_all(font_name, characters), strict=True)
        candidates.update({character: bitmap for character, bitmap in drawn if bitmap is not None})
    return candidates


def _draw_all(font_name: str, characters: Iterable[str]) -> list[Bitmap | None]:
    """A bitmap of each character, or None if the font lacks it or draws it unreadably."""
    available = _charmap(font_name)
    # The basic layout does not use a shaping library, which could differ between machines.
    font = ImageFont.truetype(str(_font_file(font_name)), BITMAP_SIDE, layout_engine=ImageFont.Layout.BASIC)
    bitmaps = (_draw(font, character) if character in available else None for character in characters)
    return [bitmap if bitmap is not None and _is_solid(bitmap) else None for bitmap in bitmaps]


def _is_basic(character: str) -> bool:
    """A named letter, digit or symbol that is not a variant of another one (accented, bold, circled, superscript …)."""
    name = unicodedata.name(character, "")
    looks_alike = name.startswith(_LOOK_ALIKES)
    is_visible = unicodedata.category(character)[0] in "LNPS"
    return bool(name) and is_visible and not looks_alike and not unicodedata.decomposition(character)


def _is_solid(bitmap: Bitmap) -> bool:
    """Whether the glyph is readable when small: not just a bar, not too little or too much ink, no hairlines."""
    if min(bitmap.shape) < 0.37 * BITMAP_SIDE or not 30 < bitmap.mean() < 190:
        return False
    # Ink that is still dark when averaged over 4 x 4 pixels lies in strokes, not in hairlines.
    blocks = np.asarray(Image.fromarray(bitmap).reduce(4))
    return bool(np.count_nonzero(blocks > 200) >= 0.25 * np.count_nonzero(blocks > 64))


def _draw(font: ImageFont.FreeTypeFont, character: str) -> Bitmap | None:
    """The character cropped and scaled to the common size; None if it has no ink."""
    left, top, right, bottom = (round(edge) for edge in font.getbbox(character, anchor="ls"))
    if right <= left or bottom <= top:
        return None
    image = Image.new("L", (right - left, bottom - top))
    ImageDraw.Draw(image).text((-left, -top), character, fill=255, font=font, anchor="ls")
    ink = image.getbbox()
    if ink is None:
        return None
    image = image.crop(ink)
    scale = BITMAP_SIDE / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return np.array(image.resize(size, Image.Resampling.BILINEAR))


def _category_name(character: str) -> str:
    return unicodedata.name(character).lower().replace(" ", "_").replace("-", "_")


def _charmap(font_name: str) -> set[str]:
    from matplotlib.ft2font import FT2Font

    return {chr(code) for code in FT2Font(str(_font_file(font_name))).get_charmap()}


def _font_file(font_name: str) -> Path:
    import matplotlib

    return Path(matplotlib.get_data_path(), "fonts", "ttf", f"{font_name}.ttf")
