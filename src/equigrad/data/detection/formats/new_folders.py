"""What the writers of VOC and YOLO folders share: an atomic folder, its images, and a report of what was left out."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from equigrad.data.detection.data import DetectionData
from equigrad.data.detection.formats.coco_paths import existing_paths
from equigrad.data.images.sizes import stored_image_size
from equigrad.data.images.stores import FolderStore, open_store
from equigrad.files import atomic_folder
from equigrad.terminal import printable

ImageFiles = Literal["link", "copy", "none"]


@dataclass(frozen=True)
class Conversion:
    """What was written, and how many objects changed or were left out, in words; `str` is one line."""

    folder: Path
    num_images: int
    num_annotations: int
    num_classes: int
    remarks: dict[str, int]

    def __str__(self) -> str:
        counted = (
            f"{self.folder}: {self.num_images:,} images, {self.num_annotations:,} annotations, "
            f"{self.num_classes:,} categories"
        )
        remarks = [f"{count:,} {words}" for words, count in self.remarks.items() if count]
        return printable("; ".join([counted, *remarks]))


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder that becomes `folder` once everything is in it; FileExistsError if that has content."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder}: expected a new or empty folder, but it has other content")
    with atomic_folder(folder) as fresh:
        yield fresh


def place_images(
    data: DetectionData,
    images: str | os.PathLike[str] | None,
    targets: Sequence[Path],
    image_files: ImageFiles | None,
) -> None:
    """Put the image files at their new paths; OSError if one is missing or has another size than the data says.

    Args:
        data: names the images.
        images: folder or `.zip` of the images; None leaves them where they are.
        targets: where each image goes.
        image_files: symbolic links, copies, or none; None links files, and copies those of an archive.
    """
    if images is None:
        if image_files in ("link", "copy"):
            raise ValueError(f"--image-files {image_files}: needs --images FOLDER, which says where the images are")
        return
    if image_files == "none":
        return
    store = open_store(images)
    if image_files == "link" and not isinstance(store, FolderStore):
        raise ValueError(f"--image-files link: {images} has no files to link to; --image-files copy unpacks them")
    sizes = zip(data.heights.tolist(), data.widths.tolist(), strict=True)
    for path, target, size in zip(existing_paths(store, data.file_names), targets, sizes, strict=True):
        # Both forms state boxes relative to the image: those of another image would be wrong.
        if (found := stored_image_size(store, path)) != size:
            raise OSError(f"{store.name(path)}: {found[0]} x {found[1]}, but {data.source} says {size[0]} x {size[1]}")
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(store, FolderStore) and image_files != "copy":
            target.symlink_to(os.path.abspath(store.file(path)))
        else:
            target.write_bytes(store.content(path))


def check_names(data: DetectionData) -> None:
    """Raise ValueError for a category whose name cannot be a line of a text file."""
    for id_, name in zip(data.categories.ids.tolist(), data.categories.names, strict=True):
        if not name.strip() or name != name.strip() or not name.isprintable():
            raise ValueError(
                f"{data.source}: category {id_}: name: expected printable characters without space around them, "
                f"got {name!r:.60}"
            )


def clipped_boxes(data: DetectionData) -> NDArray[np.float64]:
    """Corners x1, y1, x2, y2 of all boxes, (M, 4), cut off at the edges of their images."""
    data.require_sizes()
    if data.xywh is None:
        corners = data.boxes.astype(np.float64)
    else:
        corners = np.concatenate([data.xywh[:, :2], data.xywh[:, :2] + data.xywh[:, 2:]], 1)
    limits = np.stack([data.widths, data.heights], 1)[data.image_indices]
    clipped: NDArray[np.float64] = np.clip(corners, 0, np.tile(limits, 2))
    return clipped
