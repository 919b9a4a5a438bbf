"""Transforms from a PIL image to a uint8 tensor (3, H, W); the model normalises it."""

from collections.abc import Callable

from PIL import Image
from torch import Tensor
from torchvision.transforms import v2  # type: ignore[import-untyped]

Transform = Callable[[Image.Image], Tensor]

_INTERPOLATIONS = {"bilinear": v2.InterpolationMode.BILINEAR, "bicubic": v2.InterpolationMode.BICUBIC}


def train_transform(
    size: int = 224, *, scale: tuple[float, float] = (0.08, 1.0), color_jitter: float = 0.4, flip: bool = True
) -> Transform:
    """Training on photographs, as published for the long-tailed benchmarks: random crop, flip, colour jitter.

    Args:
        size: side of the result in pixels.
        scale: smallest and largest share of the image that a crop covers.
        color_jitter: strength for brightness, contrast and saturation; 0 switches it off, as on iNaturalist.
        flip: mirror images at random.
    """
    steps = [v2.RandomResizedCrop(size, scale=scale)]
    if flip:
        steps.append(v2.RandomHorizontalFlip())
    if color_jitter > 0:
        steps.append(v2.ColorJitter(color_jitter, color_jitter, color_jitter, 0))
    return _composed(*steps)


def evaluation_transform(size: int = 224, *, resize: int = 256, interpolation: str = "bilinear") -> Transform:
    """Testing on photographs: resize the shorter side to `resize`, then crop the centre."""
    return _composed(v2.Resize(resize, interpolation=_interpolation(interpolation)), v2.CenterCrop(size))


def whole_image_transform(size: int = 224, *, interpolation: str = "bilinear") -> Transform:
    """Resize the whole image to a square, whatever its aspect ratio, so that nothing is cropped."""
    return _composed(v2.Resize((size, size), interpolation=_interpolation(interpolation)))


def small_train_transform(size: int = 32, *, padding: int = 4, flip: bool = False) -> Transform:
    """Training on small images: a random shift by up to `padding` pixels; `flip` only if mirrored images make sense."""
    steps = [v2.Resize((size, size)), v2.RandomCrop(size, padding=padding, padding_mode="reflect")]
    if flip:
        steps.append(v2.RandomHorizontalFlip())
    return _composed(*steps)


def small_evaluation_transform(size: int = 32) -> Transform:
    """Testing on small images: resize to a square."""
    return _composed(v2.Resize((size, size)))


def _composed(*steps: Callable[..., object]) -> Transform:
    composed: Transform = v2.Compose([*steps, v2.PILToTensor()])
    return composed


def _interpolation(name: str) -> v2.InterpolationMode:
    if name not in _INTERPOLATIONS:
        raise ValueError(f"interpolation must be one of {sorted(_INTERPOLATIONS)}, got {name!r}")
    return _INTERPOLATIONS[name]
