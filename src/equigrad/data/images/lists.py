"""Classification data: a list of images with labels, and the data set that reads them.

images = read_images("train.txt")                      # equigrad.data.images.readers
dataset = ImageDataset(images, train_transform())
image, targets = dataset[0]                            # (3, H, W) uint8, {"labels": 3, ...}
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from equigrad.data.frequency import Counts
from equigrad.data.images.stores import ImageStore
from equigrad.files import write_atomically

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")


@dataclass(frozen=True, eq=False)
class ImageList:
    """Images and their labels; pixels are read only when needed.

    Labels are as in the file. `category_counts`, and so every data set, refuses labels out of range; `check_images`
    reports all of them.
    """

    store: ImageStore
    paths: tuple[str, ...]
    labels: Counts = field(repr=False)  # (N,) int64
    class_names: tuple[str, ...] = field(repr=False)
    source: str  # the list or folder, for messages

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def num_classes(self) -> int:
        """C, the number of categories."""
        return len(self.class_names)

    @cached_property
    def category_counts(self) -> Counts:
        """Number of images of each category, (C,)."""
        wrong = self.is_out_of_range()
        if wrong.any():
            first = int(wrong.argmax())
            raise ValueError(
                f"{self.source}: label {self.labels[first]} of {self.paths[first]} must be in 0..{self.num_classes - 1}"
            )
        return np.bincount(self.labels, minlength=self.num_classes).astype(np.int64)

    def is_out_of_range(self) -> NDArray[np.bool_]:
        """Which labels are not in 0 … C-1, (N,)."""
        wrong: NDArray[np.bool_] = (self.labels < 0) | (self.labels >= self.num_classes)
        return wrong

    def subset(self, indices: NDArray[np.int64] | Sequence[int]) -> "ImageList":
        """Some of the images, in the given order; all categories stay."""
        chosen = np.asarray(indices, dtype=np.int64)
        return replace(self, paths=tuple(self.paths[index] for index in chosen), labels=self.labels[chosen])

    def write(self, file: str | os.PathLike[str]) -> Path:
        """Write lines `path label`; the file appears complete or not at all."""
        file = Path(file)
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = [f"{path} {label}\n" for path, label in zip(self.paths, self.labels, strict=True)]
        write_atomically(file, "".join(lines).encode())
        return file


class ImageDataset(Dataset[tuple[Tensor, dict[str, Any]]]):
    """Images as tensors with their labels; torch's default collate makes batches.

    Args:
        images: the images and labels.
        transform: from a PIL image in RGB to a tensor; see `equigrad.data.images.transforms`.
    """

    def __init__(self, images: ImageList, transform: Callable[[Image.Image], Tensor]) -> None:
        self.images = images
        self.transform = transform
        self.category_counts = images.category_counts
        self.class_names = images.class_names

    @property
    def labels(self) -> Counts:
        """The label of every image, (N,); for samplers."""
        return self.images.labels

    def sample_name(self, index: int) -> str:
        """The file of an image."""
        return self.images.store.name(self.images.paths[index])

    def fingerprint(self) -> str:
        """A digest that changes with images, labels and transform (as far as its `repr` shows its settings)."""
        lines = (f"{path} {label}" for path, label in zip(self.images.paths, self.images.labels, strict=True))
        text = "\n".join([self.images.store.fingerprint(), repr(self.transform), *self.class_names, *lines])
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, dict[str, Any]]:
        path = self.images.paths[index]
        image = self.transform(self.images.store.read(path))
        return image, {"labels": int(self.images.labels[index]), "index": index, "paths": path}
