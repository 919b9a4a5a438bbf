"""Transforms of an image and its labels together, with the published settings of ADE20K as defaults.

A transform takes and gives `(image, labels)`, tv tensors (3, H, W) uint8 and (H, W); normalising is the model's part.
Random numbers are torch's. Labels are resized by the nearest pixel.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torchvision.transforms.v2 import functional  # type: ignore[import-untyped]

from equigrad.data.random_numbers import happens, integer_below, uniform
from equigrad.data.segmentation.data import Transform
from equigrad.labels import IGNORE

ImageAndLabels = tuple[Tensor, Tensor]
Size = tuple[int, int]  # height, width

MEAN_COLOUR = (124, 116, 104)  # of ImageNet: zero once the model has normalised
_CROP_TRIES = 10


@dataclass(frozen=True)
class InOrder:
    """One transform after the other."""

    steps: tuple[Transform, ...]

    def __call__(self, image: Tensor, labels: Tensor) -> ImageAndLabels:
        """Apply all steps."""
        for step in self.steps:
            image, labels = step(image, labels)
        return image, labels


@dataclass(frozen=True)
class RandomScale:
    """Resize by a random factor.

    Args:
        scale: least and greatest factor.
        base: (longer side, shorter side) of the box that the image fills at factor 1; None is the image's own size.
    """

    scale: tuple[float, float] = (0.5, 2.0)
    base: tuple[int, int] | None = (2048, 512)

    def __call__(self, image: Tensor, labels: Tensor) -> ImageAndLabels:
        """Resize both."""
        size: Size = (image.shape[-2], image.shape[-1])
        factor = uniform(*self.scale) * (1.0 if self.base is None else _fitting(size, *self.base))
        size = _scaled(size, factor)
        return functional.resize(image, list(size)), functional.resize(labels, list(size))


@dataclass(frozen=True)
class RandomCrop:
    """Cut out a random window, by preference one in which no category has too large a share.

    Args:
        size: (height, width) of the window; a smaller image stays whole in that direction.
        max_share: greatest share of a category among the pixels that are not ignored; ten windows are tried, and the
            last is taken whatever it holds. 1 takes the first.
    """

    size: Size = (512, 512)
    max_share: float = 0.75

    def __call__(self, image: Tensor, labels: Tensor) -> ImageAndLabels:
        """Cut both."""
        for _ in range(_CROP_TRIES if self.max_share < 1 else 1):
            window = self._window(image.shape[-2], image.shape[-1])
            cut = functional.crop(labels, *window)
            if self.max_share >= 1 or _largest_share(cut) < self.max_share:
                break
        return functional.crop(image, *window), cut

    def _window(self, height: int, width: int) -> tuple[int, int, int, int]:
        """Top, left, height and width."""
        cut_height, cut_width = min(self.size[0], height), min(self.size[1], width)
        return integer_below(height - cut_height + 1), integer_below(width - cut_width + 1), cut_height, cut_width


@dataclass(frozen=True)
class RandomFlip:
    """Mirror left and right."""

    probability: float = 0.5

    def __call__(self, image: Tensor, labels: Tensor) -> ImageAndLabels:
        """Mirror both, or none."""
        if not happens(self.probability):
            return image, labels
        return functional.horizontal_flip(image), functional.horizontal_flip(labels)


@dataclass(frozen=True)
class PadTo:
    """Fill up at the right and at the bottom, the image with the mean colour and the labels with IGNORE."""

    size: Size = (512, 512)

    def __call__(self, image: Tensor, labels: Tensor) -> ImageAndLabels:
        """Fill up both."""
        right, bottom = max(self.size[1] - image.shape[-1], 0), max(self.size[0] - image.shape[-2], 0)
        if not right and not bottom:
            return image, labels
        padding = [0, 0, right, bottom]
        return functional.pad(image, padding, fill=list(MEAN_COLOUR)), functional.pad(labels, padding, fill=IGNORE)


@dataclass(frozen=True)
class PhotometricDistortion:
    """Random brightness, contrast, saturation and hue, each of them every other time (Liu et al., SSD, 2016).

    Args:
        brightness: greatest value added or taken away.
        contrast: least and greatest factor of the values; every other time it comes last instead of second.
        saturation: least and greatest factor of the saturation (the S of HSV).
        hue: greatest turn, as a share of the circle; the published 18 of OpenCV's 180 are 0.1.
    """

    brightness: float = 32.0
    contrast: tuple[float, float] = (0.5, 1.5)
    saturation: tuple[float, float] = (0.5, 1.5)
    hue: float = 0.1

    def __call__(self, image: Tensor, labels: Tensor) -> ImageAndLabels:
        """Change the image's colours."""
        if happens(0.5):
            image = _as_colours(image.float() + uniform(-self.brightness, self.brightness), image)
        contrast_last = happens(0.5)
        if not contrast_last:
            image = self._with_contrast(image)
        if happens(0.5):
            image = _as_colours(_saturated(image.float(), uniform(*self.saturation)), image)
        if happens(0.5):
            image = functional.adjust_hue(image, uniform(-self.hue, self.hue))
        if contrast_last:
            image = self._with_contrast(image)
        return image, labels

    def _with_contrast(self, image: Tensor) -> Tensor:
        return _as_colours(image.float() * uniform(*self.contrast), image) if happens(0.5) else image


@dataclass(frozen=True)
class ResizeImage:
    """Make the image fill a box of (longer side, shorter side); the labels keep the size at which they are compared."""

    base: tuple[int, int] = (2048, 512)

    def __call__(self, image: Tensor, labels: Tensor) -> ImageAndLabels:
        """Resize the image."""
        size: Size = (image.shape[-2], image.shape[-1])
        return functional.resize(image, list(_scaled(size, _fitting(size, *self.base)))), labels


def train_transform(
    crop_size: int | Size = 512,
    *,
    base: tuple[int, int] | None = (2048, 512),
    scale: tuple[float, float] = (0.5, 2.0),
    max_share: float = 0.75,
    flip: bool = True,
    distortion: bool = True,
) -> Transform:
    """Training as published for ADE20K: random scale, crop, flip, distortion of colours, and padding to the crop.

    Args:
        crop_size: of the result; one number is a square.
        base: see `RandomScale`; a base's shorter side is usually the crop size.
        scale: see `RandomScale`.
        max_share: see `RandomCrop`.
        flip: mirror every other image.
        distortion: of colours.
    """
    size = (crop_size, crop_size) if isinstance(crop_size, int) else crop_size
    steps: list[Transform] = [RandomScale(scale, base), RandomCrop(size, max_share)]
    if flip:
        steps.append(RandomFlip())
    if distortion:
        steps.append(PhotometricDistortion())
    return InOrder((*steps, PadTo(size)))


def evaluation_transform(base: tuple[int, int] | None = (2048, 512)) -> Transform:
    """Testing: the whole image, made to fill a box of (longer side, shorter side); None leaves it as it is.

    Labels keep their size: predictions are brought to it (`original_size`) and compared there, as published.
    """
    return InOrder(()) if base is None else ResizeImage(base)


def _fitting(size: Size, longer: int, shorter: int) -> float:
    """The greatest factor with which an image stays in a box, whichever way it is turned."""
    return min(longer / max(size), shorter / min(size))


def _scaled(size: Size, factor: float) -> Size:
    return max(round(size[0] * factor), 1), max(round(size[1] * factor), 1)


def _largest_share(labels: Tensor) -> float:
    """Share of the most frequent category among pixels that are not ignored; 1 without any."""
    counts = torch.bincount(labels[labels != IGNORE].long())
    return float(counts.max() / counts.sum()) if len(counts) else 1.0


def _saturated(image: Tensor, factor: float) -> Tensor:
    """Colours (3, H, W) with the S of HSV multiplied, and at most 1; H and V stay."""
    value = image.amax(0)
    # S = (value - least) / value, so the distance of each channel from the value grows by the factor S does.
    most = value / (value - image.amin(0)).clamp(min=1e-6)
    return value - most.clamp(max=factor) * (value - image)


def _as_colours(values: Tensor, like: Tensor) -> Tensor:
    colours: Tensor = values.round().clamp(0, 255).to(torch.uint8)
    return functional.to_image(colours) if type(like) is not Tensor else colours
