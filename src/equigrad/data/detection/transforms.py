"""Transforms of an image and its target; `equigrad.data.detection.geometry` describes both.

With dense masks they can be combined with transforms of torchvision v2; those leave `ObjectMasks` where they are.
Random ones use torch's generator. Objects without a visible part are dropped with their labels, masks and other fields;
a target may be or become empty.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torchvision.transforms import v2  # type: ignore[import-untyped]
from torchvision.transforms.v2 import functional  # type: ignore[import-untyped]

from equigrad.data.detection.geometry import Item, Target, affine, clip, mirror, place, rescale, size_of
from equigrad.data.detection.object_masks import Size
from equigrad.data.random_numbers import choice, uniform

DetectionTransform = Callable[[Tensor, Target], Item]

LVIS_SHORT_SIDES = range(640, 801, 32)


def train_transform(
    *, short: Sequence[int] = LVIS_SHORT_SIDES, long: int = 1333, flip: float = 0.5
) -> DetectionTransform:
    """The usual training transform of detectors: random flip, then one of several sizes of the shorter side.

    The defaults are those of LVIS; OpenImages uses `short=(800,)`.
    """
    return _composed(RandomMirror(flip), ResizeShorterSide(short, long))


def evaluation_transform(short: int = 800, long: int = 1333) -> DetectionTransform:
    """The usual test transform: resize the shorter side to `short`, or less if the longer one would exceed `long`."""
    return ResizeShorterSide((short,), long)


def letterbox(size: int = 640, *, fill: int = 0) -> DetectionTransform:
    """Test transform of YOLOX: resize the longer side to `size` and pad to a square at the right or the bottom."""
    return _composed(ResizeLongerSide((size,)), PadTo((size, size), fill))


@dataclass(frozen=True)
class RandomMirror:
    """Exchange left and right with a probability."""

    probability: float = 0.5

    def __call__(self, image: Tensor, target: Target) -> Item:
        """The image and its objects, mirrored or not."""
        return mirror(image, target) if float(torch.rand(1)) < self.probability else (image, target)


@dataclass(frozen=True)
class ResizeShorterSide:
    """Resize the shorter side to one of `short`, or less if the longer side would exceed `long`."""

    short: Sequence[int]
    long: int

    def __call__(self, image: Tensor, target: Target) -> Item:
        """The resized image, and its objects without those that became too small."""
        sides = size_of(image)
        return _scaled(image, target, min(choice(self.short) / min(sides), self.long / max(sides)))


@dataclass(frozen=True)
class ResizeLongerSide:
    """Resize the longer side to one of `long`."""

    long: Sequence[int]

    def __call__(self, image: Tensor, target: Target) -> Item:
        """The resized image, and its objects without those that became too small."""
        return _scaled(image, target, choice(self.long) / max(size_of(image)))


@dataclass(frozen=True)
class PadTo:
    """Pad at the right and the bottom and store the size before as `image_size`; the last transform of a chain."""

    size: Size
    fill: int = 0

    def __call__(self, image: Tensor, target: Target) -> Item:
        """The padded image; ValueError if it is larger than `size`."""
        image_size = size_of(image)
        if image_size[0] > self.size[0] or image_size[1] > self.size[1]:
            raise ValueError(f"an image of {image_size} (height, width) cannot be padded to {self.size}: it is larger")
        image, target = place(image, target, 0, 0, self.size, self.fill)
        return image, target | {"image_size": image_size}


@dataclass(frozen=True)
class HSVJitter:
    """Multiply hue, saturation and value by random factors in 1 ± strength; the hue wraps around (YOLOX)."""

    hue: float = 0.015
    saturation: float = 0.7
    value: float = 0.4

    def __call__(self, image: Tensor, target: Target) -> Item:
        """The image with other colours; the target stays as it is."""
        strengths = torch.tensor([self.hue, self.saturation, self.value], dtype=torch.float64)
        gains = 1 + strengths * (2 * torch.rand(3, dtype=torch.float64) - 1)
        tables = torch.arange(256) * gains[:, None]  # (3, 256)
        tables = torch.cat([tables[:1] % 256, tables[1:].clamp(max=255)])
        # Pillow stores hue, saturation and value as bytes, so a table of 256 entries each is enough.
        jittered = functional.to_pil_image(image).convert("HSV").point(tables.byte().flatten().tolist())
        return functional.to_image(jittered.convert("RGB")), target


@dataclass(frozen=True)
class RandomAffine:
    """Rotate, scale, shear and shift about the centre, onto a canvas of `size` (YOLOX, after the mosaic).

    Args:
        size: height and width of the canvas.
        degrees: largest rotation in either direction.
        translate: largest shift, as a share of the canvas.
        scale: smallest and largest factor.
        shear: largest shear in degrees.
        fill: value of pixels that the image does not cover.
    """

    size: Size
    degrees: float = 10.0
    translate: float = 0.1
    scale: tuple[float, float] = (0.1, 2.0)
    shear: float = 2.0
    fill: int = 0

    def __call__(self, image: Tensor, target: Target) -> Item:
        """The mapped image, and those objects of which enough is visible."""
        image, target = affine(image, target, self._matrix(size_of(image)), self.size, self.fill)
        # The limits of YOLOX (and of YOLOv5 before it).
        return image, clip(target, tight=True, min_side=2, min_share=0.2, max_aspect=20)

    def _matrix(self, source: Size) -> Tensor:
        """(2, 3): centre to the origin, rotate and scale, shear, then shift to near the centre of the canvas."""
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
