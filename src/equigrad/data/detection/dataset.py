"""Images with their boxes, labels and masks, for training and evaluation of detectors.

dataset = DetectionDataset(read_coco("train.json"), "images.zip", transform, with_masks=True)
image, target = dataset[0]
"""

import hashlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset
from torchvision import tv_tensors  # type: ignore[import-untyped]
from torchvision.transforms.v2 import functional  # type: ignore[import-untyped]

from equigrad.data.detection.data import DetectionData
from equigrad.data.detection.formats.coco_paths import existing_paths
from equigrad.data.detection.measured_sizes import with_sizes
from equigrad.data.detection.object_masks import ObjectMasks
from equigrad.data.frequency import Counts
from equigrad.data.images.stores import open_store

Target = dict[str, Any]
Transform = Callable[[tv_tensors.Image, Target], tuple[tv_tensors.Image, Target]]


class DetectionDataset(Dataset[tuple[tv_tensors.Image, Target]]):
    """Items `(image, target)`: the image is uint8 (3, H, W). Crowds and boxes without area are left out of targets.

    A target has `boxes` (K, 4) float32 XYXY, `labels` (K,) int64, `image_id`, `original_size` (H, W) and, if asked
    for, `masks`: dense (K, H, W) uint8, or `ObjectMasks`.

    Args:
        data: images and annotations.
        images: folder or `.zip` with the images: the folder that holds the splits, or that of one split.
        transform: takes and gives `(image, target)`.
        with_masks: whether targets have masks.
        dense_masks: masks as torchvision's transforms take them. Without, each stays inside the box of its object, in a
            hundredth of the memory, and `transform` must be made of those of `equigrad.data.detection.transforms`.
        keep_empty: whether to keep images without any target. Detectors learn background from them, and in federated
            data they carry verified negatives.
    """

    def __init__(
        self,
        data: DetectionData,
        images: str | os.PathLike[str],
        transform: Transform | None = None,
        *,
        with_masks: bool = False,
        dense_masks: bool = True,
        keep_empty: bool = True,
    ) -> None:
        if with_masks and data.segmentations is None:
            raise ValueError(f"{data.source}: with_masks needs annotations with a segmentation, but the file has none")
        self.store = open_store(images)
        data = with_sizes(data, self.store)
        is_target = ~data.is_crowd & data.has_area
        has_target = data.any_in_images(is_target)
        self._num_all, self._num_empty = len(data), int((~has_target).sum())
        self._num_left_out = int((~data.is_crowd & ~data.has_area).sum())
        self.data = data if keep_empty or not self._num_empty else data.subset(np.flatnonzero(has_target))
        # Crowds are no targets, nor are boxes without area: box losses would divide by 0.
        self.is_target = ~self.data.is_crowd & self.data.has_area  # (M,)
        self.paths = existing_paths(self.store, self.data.file_names)
        self.transform = transform
        self.with_masks = with_masks
        self.dense_masks = dense_masks
        self.keep_empty = keep_empty

    @property
    def category_counts(self) -> Counts:
        """Number of images with each category, (C,)."""
        return self.data.category_counts

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the C categories, in the order of labels."""
        return self.data.categories.names

    @property
    def presence(self) -> tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]]:
        """Which image shows which category, as distinct pairs (P,) and (P,); for samplers."""
        return self.data.presence

    def describe(self) -> str:
        """One line about the data, to print at the start of a run."""
        parts = [f"{self.data.describe()}, images from {self.store.root}"]
        if self._num_empty:
            done = "kept" if self.keep_empty else "dropped"
            parts.append(f"{self._num_empty:,} of {self._num_all:,} images have no annotation and are {done}")
        if self._num_left_out:
            parts.append(f"{self._num_left_out:,} boxes without area in the image are left out")
        return "; ".join(parts)

    def sample_name(self, index: int) -> str:
        """The file of an image."""
        return self.store.name(self.paths[index])

    def fingerprint(self) -> str:
        """A digest that changes with images, annotations and transform (as far as its `repr` shows its settings)."""
        settings = [self.store.fingerprint(), repr(self.transform), repr(self.with_masks)]
        digest = hashlib.sha256("\n".join([*settings, *self.class_names, *self.paths]).encode(errors="surrogatepass"))
        for column in (self.data.offsets, self.data.boxes, self.data.labels, self.data.is_crowd):
            digest.update(np.ascontiguousarray(column).data)
        return digest.hexdigest()

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[tv_tensors.Image, Target]:
        image = self.photo(index)
        target = self._target(index, (image.shape[-2], image.shape[-1]))
        return (image, target) if self.transform is None else self.transform(image, target)

    def photo(self, index: int) -> tv_tensors.Image:
        """An image as it is, uint8 (3, H, W); ValueError if its size is not that of the annotations."""
        height, width = int(self.data.heights[index]), int(self.data.widths[index])
        picture = self.store.read(self.paths[index], stated=(height, width))
        image: tv_tensors.Image = functional.to_image(picture)
        if image.shape[-2:] != (height, width):
            found = f"{image.shape[-2]} x {image.shape[-1]}"
            raise ValueError(
                f"{self.sample_name(index)}: expected height x width {height} x {width} as in {self.data.source}, "
                f"got {found}"
            )
        return image

    def _target(self, index: int, size: tuple[int, int]) -> Target:
        rows = self.data.annotations_of(index)
        chosen = rows.start + np.flatnonzero(self.is_target[rows])
        boxes = torch.from_numpy(self.data.boxes[chosen])
        target: Target = {
            "boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=size),
            "labels": torch.from_numpy(self.data.labels[chosen]).long(),
            "image_id": self.data.image_ids[index].item(),
            "original_size": size,
        }
        if self.with_masks:
            masks = ObjectMasks.of_parts([self.data.mask_window(annotation) for annotation in chosen.tolist()], size)
            target["masks"] = tv_tensors.Mask(masks.dense()) if self.dense_masks else masks
        return target
