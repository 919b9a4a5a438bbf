"""Rendering of glyph scenes: an image, and the glyph that is visible at each pixel.

A scene is a pure function of the glyphs, its categories, the style and a random generator. `scene_rng` makes that
generator from seed, split and index, so any scene can be rendered alone, in any process, with the same result.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from equigrad.data.glyphs.drawing import MAX_ROTATION, MAX_STRETCH, GlyphSet

Split = Literal["train", "val", "test"]
RGB = NDArray[np.uint8]  # (H, W, 3)
Mask = NDArray[np.bool_]  # (H, W)

BACKGROUND_OWNER = -1  # of pixels on which no glyph is visible
_SPLITS: tuple[Split, ...] = ("train", "val", "test")
_LUMINANCE = np.array([0.299, 0.587, 0.114])
_TEXTURE_SIDE = 256
_NOISE_ROOM = 128
_SMALLEST_GLYPH = 8  # pixels


@dataclass(frozen=True)
class SceneStyle:
    """Appearance of scenes. Lengths are fractions of the image side.

    Args:
        image_size: side of the square image in pixels.
        glyph_size: smallest and largest longer side of a glyph.
        spread: how far positions vary, as a share of the free space; 0 centres every glyph.
        rotation: largest rotation in degrees in either direction; limited, because categories would look alike.
        stretch: largest change of the aspect ratio; limited for the same reason.
        contrast: smallest difference in luminance (0 to 1) between a glyph and the mean background.
        texture: range of luminance (0 to 1) of the background texture.
        noise: standard deviation of pixel noise, in grey levels of 0 to 255.
        clutter: number of strokes behind the glyphs.
        occluders: number of bars in front of the glyphs.
        min_visible: share of each glyph's pixels that must stay visible.
    """

    image_size: int = 128
    glyph_size: tuple[float, float] = (0.2, 0.4)
    spread: float = 1.0
    rotation: float = 10.0
    stretch: float = 0.08
    contrast: float = 0.3
    texture: float = 0.25
    noise: float = 8.0
    clutter: int = 5
    occluders: int = 2
    min_visible: float = 0.6

    def __post_init__(self) -> None:
        least, greatest = self.glyph_size
        if not (self.image_size >= 16 and self.image_size * least >= _SMALLEST_GLYPH and least <= greatest <= 0.85):
            raise ValueError(
                f"glyph_size must be (least, greatest) with least * image_size >= {_SMALLEST_GLYPH} pixels and "
                f"greatest <= 0.85, got {self.glyph_size} at image_size {self.image_size}"
            )
        bounds = {"spread": 1, "rotation": MAX_ROTATION, "stretch": MAX_STRETCH, "contrast": 0.45, "texture": 1}
        for name, limit in {**bounds, "noise": 128, "clutter": 1000, "occluders": 1000, "min_visible": 1}.items():
            if not 0 <= getattr(self, name) <= limit:
                raise ValueError(f"{name} must be in 0..{limit}, got {getattr(self, name)}")

    def at_difficulty(self, difficulty: float) -> "SceneStyle":
        """The same layout at another difficulty, from easy (0) to hard (1)."""
        if not 0 <= difficulty <= 1:
            raise ValueError(f"difficulty must be in 0..1, got {difficulty}")
        return replace(
            self,
            rotation=difficulty * MAX_ROTATION,
            stretch=difficulty * MAX_STRETCH,
            contrast=0.45 - 0.3 * difficulty,
            texture=0.5 * difficulty,
            noise=20 * difficulty,
            clutter=round(12 * difficulty),
            occluders=round(4 * difficulty),
            min_visible=1 - 0.6 * difficulty,
        )


SCENE = SceneStyle()
LARGE_GLYPHS = SceneStyle(glyph_size=(0.3, 0.5))  # with strokes wide enough for a segmenter with coarse output
PORTRAIT = SceneStyle(image_size=64, glyph_size=(0.5, 0.75), spread=0.5)  # classification: one glyph near the centre


@dataclass(frozen=True)
class Scene:
    """An image and, for every pixel, the index of the glyph that is visible there (or `BACKGROUND_OWNER`)."""

    image: RGB
    owners: NDArray[np.int16]  # (H, W)
    labels: NDArray[np.int64]  # (K,) category of each glyph

    def mask(self, index: int) -> Mask:
        """Visible part of one glyph, (H, W)."""
        visible: Mask = self.owners == index
        return visible

    def categories(self) -> NDArray[np.int64]:
        """Category of every pixel, (H, W); -1 for background."""
        # Index -1, the background, picks the appended entry.
        return np.append(self.labels, -1)[self.owners]


def scene_rng(seed: int, split: Split, index: int = -1) -> np.random.Generator:
    """The random generator of one scene, or without index that of the split's layout (`GlyphData.scenes`)."""
    if seed < 0:
        raise ValueError(f"seed must be 0 or more, got {seed}")
    return np.random.default_rng([seed, _SPLITS.index(split), index + 1])


def render_scene(glyphs: GlyphSet, labels: Sequence[int], style: SceneStyle, rng: np.random.Generator) -> Scene:
    """Draw one glyph for each given category; later glyphs may hide parts of earlier ones."""
    canvas = _Canvas(style, rng)
    canvas.add_clutter()
    for label in labels:
        drawings = glyphs.drawings[label]
        canvas.add_glyph(drawings[int(rng.integers(len(drawings)))])
    for _ in range(style.occluders):
        canvas.add_occluder()
    return Scene(canvas.finish(), canvas.owners, np.array(labels, dtype=np.int64))


@dataclass
class _Canvas:
    """A scene in progress: colours, owners, and how much of each glyph is still visible."""

    style: SceneStyle
    rng: np.random.Generator
    pixels: RGB = field(init=False)
    owners: NDArray[np.int16] = field(init=False)
    visible: list[int] = field(default_factory=list)  # pixels of each glyph
    required: list[float] = field(default_factory=list)
    colours: list[NDArray[np.float32]] = field(default_factory=list)

    def __post_init__(self) -> None:
        size = self.style.image_size
        self.owners = np.full((size, size), BACKGROUND_OWNER, dtype=np.int16)
        self.background = self.rng.uniform(0.2, 0.8)  # luminance
        self.pixels = self._draw_background()

    def add_clutter(self) -> None:
        """Draw random strokes; glyphs are drawn over them."""
        picture = Image.fromarray(self.pixels)
        draw = ImageDraw.Draw(picture)
        for _ in range(self.style.clutter):
            red, green, blue = self._colour(self.rng.uniform(0.1, 0.9)).astype(int).tolist()
            width = max(1, round(self.style.image_size * self.rng.uniform(0.008, 0.025)))
            draw.line(self._stroke(length=0.5, num_points=4), fill=(red, green, blue), width=width)
        self.pixels = np.array(picture)

    def add_glyph(self, drawing: NDArray[np.uint8]) -> None:
        """Draw a glyph over the others, at the first random position where it does not hide too much of any of them."""
        size = self.style.image_size * self.rng.uniform(*self.style.glyph_size)
        while size >= _SMALLEST_GLYPH:
            ink = self._transformed(drawing, size)
            solid = ink >= 128
            for _ in range(12):
                window = self._random_window(*ink.shape)
                hidden = self._hidden(self.owners[window][solid])
                if self._may_hide(hidden):
                    self._paint_glyph(ink, solid, window, hidden)
                    return
            size *= 0.8  # a crowded scene: try a smaller one
        raise ValueError(f"glyph {len(self.visible) + 1} of a scene does not fit: use fewer or smaller glyphs")

    def add_occluder(self) -> None:
        """Draw a bar over the glyphs, unless it would hide too much of one."""
        size = self.style.image_size
        picture = Image.new("1", (size, size))
        width = max(1, round(size * self.rng.uniform(0.02, 0.06)))
        ImageDraw.Draw(picture).line(self._stroke(length=0.4, num_points=2), fill=1, width=width)
        bar = np.array(picture)
        colour = self._colour(self.rng.uniform(0.1, 0.9))
        hidden = self._hidden(self.owners[bar])
        if self._may_hide(hidden):
            self.pixels[bar] = colour
            self.owners[bar] = BACKGROUND_OWNER
            self.visible = [before - lost for before, lost in zip(self.visible, hidden, strict=True)]

    def finish(self) -> RGB:
        """The finished image, with pixel noise."""
        noise = _noise(self.style.image_size, self.style.noise)
        noisy: RGB = np.clip(noise[self._crop(_NOISE_ROOM)] + self.pixels, 0, 255).astype(np.uint8)
        return noisy

    def _paint_glyph(self, ink: NDArray[np.uint8], solid: Mask, window: tuple[slice, slice], hidden: list[int]) -> None:
        under = self.pixels[window].astype(np.float32)
        colour = self._glyph_colour(hidden)
        self.pixels[window] = under + (colour - under) * (ink[..., None] * np.float32(1 / 255))
        self.visible = [before - lost for before, lost in zip(self.visible, hidden, strict=True)]
        area = int(np.count_nonzero(solid))
        self.owners[window][solid] = len(self.visible)
        self.visible.append(area)
        self.colours.append(colour)
        self.required.append(self.style.min_visible * area)

    def _transformed(self, drawing: NDArray[np.uint8], size: float) -> NDArray[np.uint8]:
        """Scale, stretch, rotate and crop the drawing, and scale its ink to a maximum of 255."""
        height, width = drawing.shape
        scale = size / max(height, width)
        stretched = width * (1 + self.rng.uniform(-1, 1) * self.style.stretch)
        shape = (max(1, round(stretched * scale)), max(1, round(height * scale)))
        picture = Image.fromarray(drawing).resize(shape, Image.Resampling.BILINEAR)
        angle = self.rng.uniform(-1, 1) * self.style.rotation
        picture = picture.rotate(angle, Image.Resampling.BILINEAR, expand=True)
        ink = np.array(picture.crop(picture.getbbox()))
        # Thin strokes turn grey when scaled down; without this, some glyphs would have no pixel above the threshold.
        brightened: NDArray[np.uint8] = (ink * (255 / ink.max())).astype(np.uint8)
        return brightened

    def _random_window(self, height: int, width: int) -> tuple[slice, slice]:
        """A window of the given shape at a random position inside the image."""
        room = np.array([self.style.image_size - height, self.style.image_size - width])
        offset = 0.5 + (self.rng.random(2) - 0.5) * self.style.spread
        top, left = np.rint(room * offset).astype(int)
        return slice(top, top + height), slice(left, left + width)

    def _hidden(self, owners: NDArray[np.int16]) -> list[int]:
        """Number of pixels of each glyph among these owners."""
        counts: list[int] = np.bincount(owners + 1, minlength=len(self.visible) + 1).tolist()
        return counts[1:]

    def _may_hide(self, hidden: list[int]) -> bool:
        remaining = zip(self.visible, hidden, self.required, strict=True)
        return all(lost == 0 or before - lost >= needed for before, lost, needed in remaining)

    def _draw_background(self) -> RGB:
        """A texture between two colours with about the luminance of the background."""
        half = self.style.texture / 2
        low, high = (self._colour(float(np.clip(self.background + side, 0.05, 0.95))) for side in (-half, half))
        high = low + (high - low) * min(1, 2 * self.style.texture)  # weak texture also means little change of hue
        ramp = np.linspace(low, high, 256).astype(np.uint8)
        bank = _textures(self.style.image_size)
        texture = bank[int(self.rng.integers(len(bank)))]
        background: RGB = np.take(ramp, texture[self._crop(_TEXTURE_SIDE)], axis=0)
        return background

    def _crop(self, room: int) -> tuple[slice, slice]:
        """A random window of the image's size in an array that is larger by `room`."""
        top, left = self.rng.integers(room, size=2).tolist()
        return slice(top, top + self.style.image_size), slice(left, left + self.style.image_size)

    def _glyph_colour(self, hidden: list[int]) -> NDArray[np.float32]:
        """A colour that contrasts with the background; of three, the one most different from the glyphs it overlaps."""
        below = [colour for colour, lost in zip(self.colours, hidden, strict=True) if lost]
        choices = [self._colour(self._contrasting_luminance()) for _ in range(3 if below else 1)]
        return max(
            choices, key=lambda choice: min((float(np.abs(choice - colour).sum()) for colour in below), default=0)
        )

    def _contrasting_luminance(self) -> float:
        """A random luminance, uniform over those that differ enough from the background."""
        dark, bright = self.background - self.style.contrast, 1 - self.background - self.style.contrast
        point = self.rng.uniform(0, max(dark, 0) + max(bright, 0)) if max(dark, bright) > 0 else 0.0
        return point if point < dark else self.background + self.style.contrast + point - max(dark, 0)

    def _colour(self, luminance: float) -> NDArray[np.float32]:
        """A random colour of the given luminance, (3,) in 0..255."""
        colour = self.rng.random(3)
        brightness = float(colour @ _LUMINANCE)
        # Darken towards black or lighten towards white, so that the colour stays in range.
        if luminance <= brightness:
            colour *= luminance / brightness
        else:
            colour += (1 - colour) * ((luminance - brightness) / (1 - brightness))
        return (255 * colour).astype(np.float32)

    def _stroke(self, length: float, num_points: int) -> list[tuple[float, float]]:
        """Points of a slightly curved line."""
        start, heading = self.rng.random(2), self.rng.uniform(0, 2 * np.pi)
        step = self.rng.uniform(0.4, 1) * length / (num_points - 1)
        headings = heading + np.cumsum(self.rng.uniform(-0.7, 0.7, num_points - 1))
        moves = step * np.stack([np.cos(headings), np.sin(headings)], 1)
        points = np.vstack([start, start + np.cumsum(moves, 0)]) * self.style.image_size
        return [(x, y) for x, y in points.tolist()]


@functools.lru_cache(maxsize=4)
def _textures(image_size: int) -> NDArray[np.uint8]:
    """Smooth noise from coarse to fine, large enough for a window of the image's size at 256 x 256 positions."""
    rng = np.random.default_rng(0)
    side = _TEXTURE_SIDE
    textures = []
    for cells in (3, 4, 6, 8, 12, 16, 32, 64):
        # The centre of 3 x 3 copies can be tiled without a seam.
        lattice = Image.fromarray(np.tile(rng.integers(0, 256, (cells, cells), dtype=np.uint8), (3, 3)))
        smooth = lattice.resize((3 * side, 3 * side), Image.Resampling.BICUBIC)
        textures.append(np.array(smooth.crop((side, side, 2 * side, 2 * side))))
    margin = ((0, 0), (0, image_size), (0, image_size))
    return np.pad(np.stack(textures), margin, mode="wrap")


@functools.lru_cache(maxsize=4)
def _noise(image_size: int, deviation: float) -> NDArray[np.int16]:
    """Pixel noise for all scenes, larger than the image: new noise for every scene would take a quarter of the time."""
    side = image_size + _NOISE_ROOM
    noise = np.random.default_rng(0).standard_normal((side, side, 3)) * deviation
    return np.rint(noise).astype(np.int16)
