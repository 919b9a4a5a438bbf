"""Transforms of an image and its labels together; the defaults are the published settings of ADE20K.

A transform takes and gives `(image, labels)`, tv tensors (3, H, W) uint8 and (H, W); the model normalises images.
Random transforms use torch's generator. Labels are resized with the nearest pixel.
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

MEAN_COLOUR = (124, 116, 104)  # of ImageNet; zero after the model's normalisation
_CROP_TRIES = 10


@dataclass(frozen=True)
class Compose:
    """Apply transforms one after the other."""

    steps: tuple[Transform, ...]

    def __call__(self, image: Tensor, labels: Tensor) -> ImageAndLabels:
        """Image and labels after all steps."""
        for step in self.steps:
            image, labels = step(image, labels)
        return image, labels


@dataclass(frozen=True)
class RandomScale:
    """Resize by a random factor.

    Args:
        scale: smallest and largest factor.
        base: (longer side, shorter side) of the box into which the image is fitted at factor 1; None is its own size.
    """

    scale: tuple[float, float] = (0.5, 2.0)
    base: tuple[int, int] | None = (2048, 512)

    def __call__(self, image: Tensor, labels: Tensor) -> ImageAndLabels:
        """Resize image and labels by the same factor."""
        size: Size = (image.shape[-2], image.shape[-1])
        factor = uniform(*self.scale) * (1.0 if self.base is None else _fitting(size, *self.base))
        size = _scaled(size, factor)
        return functional.resize(image, list(size)), functional.resize(labels, list(size))


@dataclass(frozen=True)
class RandomCrop:
    """Crop a random window, preferably one in which no category has too large a share.

    Args:
        size: (height, width) of the window; a smaller image keeps its size in that direction.
        max_share: largest share of a category among the pixels that are not ignored; up to ten windows are tried, and
            the last one is used in any case. With 1 the first window is used.
    """

    size: Size = (512, 512)
    max_share: float = 0.75

    def __call__(self, image: Tensor, labels: Tensor) -> ImageAndLabels:
        """Crop image and labels to the same window."""
        for _ in range(_CROP_TRIES if self.max_share < 1 else 1):
            window = self._window(image.shape[-2], image.shape[-1])
            cut = functional.crop(labels, *window)
            if self.max_share >= 1 or _largest_share(cut) < self.max_share:
                break
        return functional.crop(image, *window), cut

    def _window(self, height: int, width: int) -> tuple[int, int, int, int]:
        """Top, left, height and width of a random window."""
        cut_height, cut_width = min(self.size[0], height), min(self.size[1], width)
        return integer_below(height - cut_height + 1), integer_below(width - cut_width + 1), cut_height, cut_width


@dataclass(frozen=True)
class RandomFlip:
    """Mirror image and labels horizontally, with a probability."""

    probability: float = 0.5

    def __call__(self, image: Tensor, labels: Tensor) -> ImageAndLabels:
        """Mirror both, or return both unchanged."""
        if not happens(self.probability):
            return image, labels
        return functional.horizontal_flip(image), functional.horizontal_flip(labels)


@dataclass(frozen=True)
class PadTo:
    """Pad at the right and the bottom, the image with the mean colour and the labels with IGNORE."""

    size: Size = (512, 512)

    def __call__(self, image: Tensor, labels: Tensor) -> ImageAndLabels:
        """Pad image and labels; larger ones stay as they are."""
        right, bottom = max(self.size[1] - image.shape[-1], 0), max(self.size[0] - image.shape[-2], 0)
        if not right and not bottom:
            return image, labels
        padding = [0, 0, right, bottom]
        return functional.pad(image, padding, fill=list(MEAN_COLOUR)), functional.pad(labels, padding, fill=IGNORE)


@dataclass(frozen=True)
class PhotometricDistortion:
    """Random brightness, contrast, saturation and hue, each with probability 0.5 (Liu et al., SSD, 2016).

    Args:
        brightness: largest value that is added or subtracted.
        contrast: smallest and largest factor; with probability 0.5 it is applied last instead of second.
        saturation: smallest and largest factor of the saturation (the S of HSV).
        hue: largest shift, as a share of the circle; the published 18 of OpenCV's 180 are 0.1.
    """

    brightness: float = 32.0
    contrast: tuple[float, float] = (0.5, 1.5)
    saturation: tuple[float, float] = (0.5, 1.5)
    hue: float = 0.1

    def __call__(self, image: Tensor, labels: Tensor) -> ImageAndLabels:
        """Change the colours of the image; the labels stay as they are."""
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
    """Fit the image into a box of (longer side, shorter side); the labels keep their size, at which metrics compare."""

    base: tuple[int, int] = (2048, 512)

    def __call__(self, image: Tensor, labels: Tensor) -> ImageAndLabels:
        """Resize the image only."""
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
        crop_size: (height, width) of the result; one number is a square.
        base: see `RandomScale`; its shorter side is usually the crop size.
        scale: see `RandomScale`.
        max_share: see `RandomCrop`.
        flip: mirror images at random.
        distortion: change colours at random; see `PhotometricDistortion`.
    """
    size = (crop_size, crop_size) if isinstance(crop_size, int) else crop_size
    steps: list[Transform] = [RandomScale(scale, base), RandomCrop(size, max_share)]
    if flip:
        steps.append(RandomFlip())
    if distortion:
        steps.append(PhotometricDistortion())
    return Compose((*steps, PadTo(size)))


def evaluation_transform(base: tuple[int, int] | None = (2048, 512)) -> Transform:
    """Testing: fit the whole image into a box of (longer side, shorter side); None leaves it as it is.

    Labels keep their size: predictions are resized to it (`original_size`) and compared there, as published.
    """
    return Compose(()) if base is None else ResizeImage(base)


def _fitting(size: Size, longer: int, shorter: int) -> float:
    """The largest factor at which an image fits into a box, in portrait or landscape."""
    return min(longer / max(size), shorter / min(size))


def _scaled(size: Size, factor: float) -> Size:
    return max(round(size[0] * factor), 1), max(round(size[1] * factor), 1)


def _largest_share(labels: Tensor) -> float:
    """Share of the most frequent category among pixels that are not ignored; 1 if all are ignored."""
    counts = torch.bincount(labels[labels != IGNORE].long())
    return float(counts.max() / counts.sum()) if len(counts) else 1.0


def _saturated(image: Tensor, factor: float) -> Tensor:
    """Multiply the S of HSV of colours (3, H, W), up to at most 1; H and V stay the same."""
    value = image.amax(0)
    # S = (value - minimum) / value, so the distance of each channel from the value is multiplied like S.
    most = value / (value - image.amin(0)).clamp(min=1e-6)
    return value - most.clamp(max=factor) * (value - image)


def _as_colours(values: Tensor, like: Tensor) -> Tensor:
    colours: Tensor = values.round().clamp(0, 255).to(torch.uint8)
    return functional.to_image(colours) if type(like) is not Tensor else colours
