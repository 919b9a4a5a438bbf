"""Images that somebody wants predictions for: files, folders, archives, pixels in memory."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from equigrad.data.images.decoding import to_rgb
from equigrad.data.images.folders import archived_images, image_files
from equigrad.data.images.stores import ImageStore, ZipStore, read_image, zip_parts

OneImage = str | os.PathLike[str] | Image.Image | NDArray[np.uint8] | Tensor
"""A file, a PIL image, an array of uint8, (H, W, 3), (H, W, 4) with alpha or (H, W) in grey, or a tensor (3, H, W) of
uint8 or of floats in [0, 1]."""


@dataclass(frozen=True, eq=False)
class ImageSource:
    """An image: a file that is read when it is needed, or pixels.

    Args:
        path: path of the file, such as `photos.zip/a.jpg` for one in an archive; None if there is none.
        pixels: in RGB; None reads the file.
        archived: the archive and the name of the image in it; None if it is in none.
    """

    path: Path | None = None
    pixels: Image.Image | None = field(default=None, repr=False)
    archived: tuple[ImageStore, str] | None = field(default=None, repr=False)

    def read(self) -> Image.Image:
        """The image in RGB, decoded as in training; FileNotFoundError or OSError names the file."""
        if self.pixels is not None:
            return self.pixels
        if self.archived is not None:
            store, name = self.archived
            return store.read(name)
        assert self.path is not None
        return read_image(self.path)


def image_sources(images: Iterable[OneImage]) -> Iterator[ImageSource]:
    """One source an image, in order; the images of a folder or an archive one after the other."""
    for image in images:
        if isinstance(image, str) and "://" in image:
            raise ValueError(f"{image}: images are not read from addresses; download it and give its path")
        if isinstance(image, str | os.PathLike):
            yield from _files(Path(image))
        else:
            yield ImageSource(pixels=_pixels(image))


def is_one_image(images: Any) -> bool:
    """Whether this is a single image; a folder, an archive, a list and an array of four dimensions are not."""
    if isinstance(images, str | os.PathLike):
        parts = zip_parts(Path(images))
        return not Path(images).is_dir() if parts is None else ZipStore(parts[0]).size(parts[1]) is not None
    if isinstance(images, np.ndarray):
        return images.ndim in (2, 3)
    return isinstance(images, Image.Image) or (isinstance(images, Tensor) and images.ndim == 3)


def _files(given: Path) -> Iterator[ImageSource]:
    found = archived_images(given)
    if found is None:
        yield from map(ImageSource, image_files(given))
        return
    store, names = found
    yield from (ImageSource(store.root / name, archived=(store, name)) for name in names)


def _pixels(image: Any) -> Image.Image:
    if isinstance(image, Image.Image):
        return to_rgb(image)
    if isinstance(image, Tensor):
        image = _channels_last(image)
    if isinstance(image, np.ndarray) and image.ndim == 3 and image.shape[0] == 3 and image.shape[2] not in (3, 4):
        raise ValueError(f"an array must have its channels last, got {_kind(image)}; give array.transpose(1, 2, 0)")
    has_shape = isinstance(image, np.ndarray) and (image.ndim == 2 or (image.ndim == 3 and image.shape[2] in (3, 4)))
    if not has_shape or image.dtype != np.uint8:
        raise ValueError(
            "an image must be a path, a PIL image, an array (H, W, 3), (H, W, 4) or (H, W) of uint8 or a tensor, "
            f"got {_kind(image)}"
        )
    if not image.size:
        raise ValueError(f"an image must have pixels, got {_kind(image)}")
    return to_rgb(Image.fromarray(np.ascontiguousarray(image)))


def _channels_last(image: Tensor) -> NDArray[np.uint8]:
    """A tensor as an array (H, W, 3) of uint8."""
    if image.ndim != 3 or image.shape[0] != 3:
        raise ValueError(f"a tensor must be (3, H, W), got {_kind(image)}")
    if image.is_floating_point():
        # Not a NaN, and not an image that was normalised already.
        if not bool(((image >= 0) & (image <= 1)).all()):
            raise ValueError(f"a tensor of floats must be in [0, 1], got {image.min():.3g} to {image.max():.3g}")
        image = (image.float() * 255).round().byte()
    array: NDArray[np.uint8] = image.detach().permute(1, 2, 0).cpu().numpy()
    return array


def _kind(image: Any) -> str:
    if isinstance(image, np.ndarray | Tensor):
        return f"{tuple(image.shape)} of {image.dtype}"
    return type(image).__name__
