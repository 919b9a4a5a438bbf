"""Classification data: a list of images with labels, without torch, so that checks start quickly."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from equigrad.data.frequency import Counts
from equigrad.data.images.stores import ImageStore
from equigrad.files import write_atomically

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
_SYSTEM_FOLDERS = ("__MACOSX", "@eaDir")  # of macOS in archives, and of Synology's drives


def is_image_path(path: str) -> bool:
    """Whether a path below a folder of images is that of an image, by its name."""
    return path.lower().endswith(SUFFIXES) and not is_hidden(path)


def is_hidden(path: str) -> bool:
    """Whether a file or folder is hidden, or made by an operating system: it then has no images of the user."""
    return any(part.startswith(".") or part in _SYSTEM_FOLDERS for part in path.split("/"))


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

    @property
    def labels_present(self) -> set[int]:
        """The labels that occur."""
        return set(self.labels.tolist())

    def target(self, index: int) -> Any:
        """What a loss is given for an image."""
        return int(self.labels[index])

    def subset(self, indices: NDArray[np.int64] | Sequence[int]) -> Self:
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
