"""Transforms of detection: each takes and gives an image and its target (see `detection_geometry`).

They may be mixed with those of torchvision v2. Random ones draw from torch's generator. Objects that end up without a
visible part are dropped, together with their labels, masks and other fields; a target may be or become empty.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torchvision.transforms import v2  # type: ignore[import-untyped]
from torchvision.transforms.v2 import functional  # type: ignore[import-untyped]

from equigrad.data.detection.geometry import Item, Size, Target, affine, clip, place, rescale, size_of
from equigrad.data.random_numbers import choice, uniform

DetectionTransform = Callable[[Tensor, Target], Item]

LVIS_SHORT_SIDES = range(640, 801, 32)


def train_transform(
    *, short: Sequence[int] = LVIS_SHORT_SIDES, long: int = 1333, flip: float = 0.5
) -> DetectionTransform:
    """Training of two-stage and one-stage detectors: a shorter side out of several, and mirrored images.

    The defaults are those of LVIS; OpenImages has `short=(800,)`, and `range(640, 801)` would be a whole range.
    """
    return _composed(v2.RandomHorizontalFlip(flip), ResizeShorterSide(short, long))


def evaluation_transform(short: int = 800, long: int = 1333) -> DetectionTransform:
    """Testing: the shorter side to `short`, unless the longer one would exceed `long`."""
    return ResizeShorterSide((short,), long)


def letterbox(size: int = 640, *, fill: int = 0) -> DetectionTransform:
    """Testing of YOLOX: the longer side to `size`, then padded to a square at the right or the bottom."""
    return _composed(ResizeLongerSide((size,)), PadTo((size, size), fill))


@dataclass(frozen=True)
class ResizeShorterSide:
    """The shorter side becomes one of `short`, or less where the longer one would exceed `long`."""

    short: Sequence[int]
    long: int

    def __call__(self, image: Tensor, target: Target) -> Item:
        """At another size."""
        sides = size_of(image)
        return _scaled(image, target, min(choice(self.short) / min(sides), self.long / max(sides)))


@dataclass(frozen=True)
class ResizeLongerSide:
    """The longer side becomes one of `long`."""

    long: Sequence[int]

    def __call__(self, image: Tensor, target: Target) -> Item:
        """At another size."""
        return _scaled(image, target, choice(self.long) / max(size_of(image)))


@dataclass(frozen=True)
class PadTo:
    """Padding at the right and the bottom; the size before it is kept as `image_size`. Comes last."""

    size: Size
    fill: int = 0

    def __call__(self, image: Tensor, target: Target) -> Item:
        """Exactly as large as `size`."""
        image_size = size_of(image)
        if image_size[0] > self.size[0] or image_size[1] > self.size[1]:
            raise ValueError(f"an image of {image_size} cannot be padded to {self.size}")
        image, target = place(image, target, 0, 0, self.size, self.fill)
        return image, target | {"image_size": image_size}


@dataclass(frozen=True)
class HSVJitter:
    """Hue, saturation and value times a number within 1 ± strength each; the hue goes round (YOLOX)."""

    hue: float = 0.015
    saturation: float = 0.7
    value: float = 0.4

    def __call__(self, image: Tensor, target: Target) -> Item:
        """In other colours."""
        strengths = torch.tensor([self.hue, self.saturation, self.value], dtype=torch.float64)
        gains = 1 + strengths * (2 * torch.rand(3, dtype=torch.float64) - 1)
        tables = torch.arange(256) * gains[:, None]  # (3, 256)
        tables = torch.cat([tables[:1] % 256, tables[1:].clamp(max=255)])
        # Pillow keeps hue, saturation and value in bytes: one look-up each.
        jittered = functional.to_pil_image(image).convert("HSV").point(tables.byte().flatten().tolist())
        return functional.to_image(jittered.convert("RGB")), target


@dataclass(frozen=True)
class RandomAffine:
    """Rotation, scaling, shear and shift about the centre, onto a canvas of its own size (YOLOX, after the mosaic).

    Args:
        size: of the canvas.
        degrees: of rotation, at most, either way.
        translate: shift as a share of the canvas, at most.
        scale: from least to most.
        shear: in degrees, at most.
        fill: value where there is no image.
    """

    size: Size
    degrees: float = 10.0
    translate: float = 0.1
    scale: tuple[float, float] = (0.1, 2.0)
    shear: float = 2.0
    fill: int = 0

    def __call__(self, image: Tensor, target: Target) -> Item:
        """Turned, scaled, sheared and shifted."""
        image, target = affine(image, target, self._matrix(size_of(image)), self.size, self.fill)
        # What YOLOX (and YOLOv5 before it) trains on after the map.
        return image, clip(target, tight=True, min_side=2, min_share=0.2, max_aspect=20)

    def _matrix(self, source: Size) -> Tensor:
        """(2, 3): centre to the origin, turn and scale, shear, then to about the centre of the canvas."""
        angle = math.radians(uniform(-self.degrees, self.degrees))
        cosine, sine = math.cos(angle), math.sin(angle)
        turn = uniform(*self.scale) * torch.tensor([[cosine, sine], [-sine, cosine]], dtype=torch.float64)
        shear_x, shear_y = (math.tan(math.radians(uniform(-self.shear, self.shear))) for _ in range(2))
        linear = torch.tensor([[1, shear_x], [shear_y, 1]], dtype=torch.float64) @ turn
        half = torch.tensor([source[1], source[0]], dtype=torch.float64) / 2
        shares = [uniform(0.5 - self.translate, 0.5 + self.translate) for _ in range(2)]
        goal = torch.tensor([shares[0] * self.size[1], shares[1] * self.size[0]], dtype=torch.float64)
        return torch.cat([linear, (goal - linear @ half)[:, None]], dim=1)


def _scaled(image: Tensor, target: Target, factor: float) -> Item:
    image, target = rescale(image, target, factor)
    return image, clip(target)


def _composed(*steps: DetectionTransform) -> DetectionTransform:
    composed: DetectionTransform = v2.Compose(steps)
    return composed
