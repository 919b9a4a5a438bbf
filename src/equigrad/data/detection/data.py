"""Detection data as arrays: images, categories and annotations.

    data = read_coco("lvis_v1_train.json")             # equigrad.data.detection.formats.coco_json
    data.boxes[data.annotations_of(0)]                 # (K, 4) boxes of the first image

There is no Python object for each annotation: forked workers share the arrays, and pickling them is fast.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from equigrad.data.detection.masks import Rle, Segmentations, rle_to_mask, rle_to_window, shape_to_rle
from equigrad.data.frequency import Counts, Groups, lvis_split
from equigrad.data.images.paths import inside
from equigrad.record_ids import Ids

LETTERS = {"r": "rare", "c": "common", "f": "frequent"}


@dataclass(frozen=True, eq=False)
class Categories:
    """C categories by ascending id; labels are indices in this order."""

    ids: Ids  # (C,)
    names: tuple[str, ...]
    frequency: tuple[str, ...] | None = None  # LVIS: r, c or f, by number of training images

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False)
class CategoryLists:
    """For every image a list of category indices: that of image i is `values[offsets[i] : offsets[i + 1]]`."""

    offsets: NDArray[np.int64]  # (I + 1,)
    values: NDArray[np.int32]

    def __getitem__(self, image: int) -> NDArray[np.int32]:
        return self.values[self.offsets[image] : self.offsets[image + 1]]

    def take(self, images: NDArray[np.int64]) -> "CategoryLists":
        """The lists of the given images, in the given order."""
        return CategoryLists(*take_ranges(self.offsets, images, self.values))


class StoredNames(Sequence[str]):
    """Names of image files in one text: name i is `text[offsets[i] : offsets[i + 1]]`.

    A million names take no memory of their own when the text is mapped from a file. That file may come from anybody,
    so a name that would leave the folder of images is refused when it is asked for.
    """

    def __init__(self, text: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
        self.text, self.offsets = text, offsets

    @classmethod
    def of(cls, names: Sequence[str]) -> "StoredNames":
        """Join names."""
        parts = [name.encode() for name in names]
        offsets = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        return cls(np.frombuffer(b"".join(parts), np.uint8), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> "StoredNames": ...
    def __getitem__(self, index: int | slice) -> "str | StoredNames":
        if isinstance(index, slice):
            return self.take(np.arange(len(self))[index])
        if not -len(self) <= index < len(self):
            raise IndexError(f"name {index} of {len(self)}")
        start, end = self.offsets[index % len(self) :][:2]
        return inside(self.text[start:end].tobytes().decode(), "file_name")

    def take(self, images: NDArray[np.int64]) -> "StoredNames":
        """The names of the given images, in the given order."""
        offsets, text = take_ranges(self.offsets, images, self.text)
        return StoredNames(text, offsets)

    def without_folders(self) -> "StoredNames":
        """The part of each name behind its last slash."""
        slashes = np.concatenate([[-1], np.flatnonzero(self.text == ord("/"))])
        last = slashes[np.searchsorted(slashes, self.offsets[1:]) - 1]  # before the end of each name
        starts = np.maximum(last + 1, self.offsets[:-1])
        lengths = self.offsets[1:] - starts
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return StoredNames(self.text[np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)], offsets)

    def are_distinct(self) -> bool:
        """Whether no two names are equal."""
        text = self.text.tobytes()
        return len({text[start:end] for start, end in pairwise(self.offsets.tolist())}) == len(self)


@dataclass(frozen=True, eq=False)
class DetectionData:
    """I images and their M annotations, sorted by image; those of one image are in the order of the file."""

    source: str  # the annotation file, for messages
    image_ids: Ids  # (I,)
    file_names: Sequence[str]
    heights: NDArray[np.int32]  # (I,), 0 where the file has no size
    widths: NDArray[np.int32]  # (I,), the same
    categories: Categories
    offsets: NDArray[np.int64]  # (I + 1,): the annotations of image i are offsets[i] ... offsets[i + 1]
    boxes: NDArray[np.float32]  # (M, 4) x1, y1, x2, y2
    labels: NDArray[np.int32]  # (M,) category indices
    areas: NDArray[np.float64]  # (M,) of the objects, in pixels
    is_crowd: NDArray[np.bool_]  # (M,)
    ids: NDArray[np.int64]  # (M,), of the file or, where it has texts, from 1 in its order
    segmentations: Segmentations | None = None
    negative: CategoryLists | None = None  # federated data: categories known to be absent from an image
    not_exhaustive: CategoryLists | None = None  # federated data: categories that are not fully annotated in an image
    xywh: NDArray[np.float64] | None = None  # (M, 4) boxes as in the file: metrics need all digits

    def __len__(self) -> int:
        return len(self.image_ids)

    @property
    def num_classes(self) -> int:
        """C, the number of categories."""
        return len(self.categories)

    @property
    def num_annotations(self) -> int:
        """M, crowds included."""
        return len(self.labels)

    @cached_property
    def image_indices(self) -> NDArray[np.int64]:
        """Index of the image of every annotation, (M,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    @cached_property
    def presence(self) -> tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]]:
        """Which image shows which category, as distinct pairs (P,) and (P,) by image, without crowds; for samplers."""
        counted = ~self.is_crowd
        pairs = np.unique(self.image_indices[counted] * self.num_classes + self.labels[counted])
        return pairs // max(self.num_classes, 1), pairs % max(self.num_classes, 1)

    @cached_property
    def category_counts(self) -> Counts:
        """Number of images with each category, (C,), without crowds; LVIS calls it `image_count`."""
        return np.bincount(self.presence[1], minlength=self.num_classes).astype(np.int64)

    @cached_property
    def instance_counts(self) -> Counts:
        """Number of annotations of each category, (C,), without crowds."""
        return np.bincount(self.labels[~self.is_crowd], minlength=self.num_classes).astype(np.int64)

    @property
    def groups(self) -> Groups:
        """Rare, common and frequent categories: as the file says, else by number of images in this data."""
        letters = self.categories.frequency
        if letters is None:
            return lvis_split(self.category_counts)
        return {name: np.flatnonzero(np.array(letters) == letter) for letter, name in LETTERS.items()}

    @cached_property
    def is_empty(self) -> NDArray[np.bool_]:
        """Which images have no annotation other than crowds, (I,)."""
        return ~self.any_in_images(~self.is_crowd)

    @cached_property
    def has_sizes(self) -> bool:
        """Whether the height and width of every image are known."""
        return bool(self.heights.all() and self.widths.all())

    def require_sizes(self) -> None:
        """ValueError if the height and width of an image are not known."""
        if not self.has_sizes:
            new = Path(self.source).with_suffix(".sizes.json")
            words = ["equigrad", "data", "convert", "coco", self.source, str(new), "--images"]
            raise ValueError(
                f"image {self.image_ids[self.heights.argmin()]}: height and width are missing; "
                f"`{shlex.join(words)} FOLDER` writes a file that has them"
            )

    @cached_property
    def has_area(self) -> NDArray[np.bool_]:
        """Which boxes have some area inside their image, (M,)."""
        self.require_sizes()
        lengths = np.diff(self.offsets)
        size = np.stack([np.repeat(side, lengths) for side in (self.widths, self.heights)], axis=1)
        corners = self.boxes.reshape(-1, 2, 2)
        extent = np.minimum(corners[:, 1], size) - np.maximum(corners[:, 0], 0)
        positive: NDArray[np.bool_] = (extent[:, 0] > 0) & (extent[:, 1] > 0)
        return positive

    def any_in_images(self, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether each image has any of the chosen annotations, flags (M,); (I,)."""
        found = np.zeros(len(self), np.bool_)
        has_some = np.diff(self.offsets) > 0
        if has_some.any():  # the ranges of the others are empty, which reduceat does not know
            found[has_some] = np.logical_or.reduceat(chosen, self.offsets[:-1][has_some])
        return found

    def annotations_of(self, image: int) -> slice:
        """The range of annotations of an image."""
        return slice(int(self.offsets[image]), int(self.offsets[image + 1]))

    def rle(self, annotation: int) -> Rle:
        """The mask of an annotation as compressed run lengths: `{"size": [h, w], "counts": bytes}`."""
        image = int(np.searchsorted(self.offsets, annotation, side="right")) - 1
        self.require_sizes()
        try:
            if self.segmentations is None:
                raise ValueError("segmentation: no annotation of the file has one")
            shape = self.segmentations.shape(annotation)
            return shape_to_rle(shape, int(self.heights[image]), int(self.widths[image]))
        except ValueError as error:
            raise ValueError(f"{self.source}: annotation {self.ids[annotation]}: {error}") from None

    def mask(self, annotation: int) -> NDArray[np.uint8]:
        """The mask of an annotation, (H, W) of 0 and 1."""
        return rle_to_mask(self.rle(annotation))

    def mask_window(self, annotation: int) -> tuple[int, int, NDArray[np.uint8]]:
        """Left and top of the bounding box of an annotation's mask, and its pixels (h, w)."""
        return rle_to_window(self.rle(annotation))

    def subset(self, images: NDArray[np.int64] | Sequence[int]) -> "DetectionData":
        """Some of the images, in the given order; all categories stay."""
        chosen = np.asarray(images, dtype=np.int64)
        offsets, annotations = take_ranges(self.offsets, chosen, np.arange(self.num_annotations))
        columns: dict[str, Any] = {
            name: getattr(self, name)[annotations] for name in ("boxes", "labels", "areas", "is_crowd", "ids")
        }
        return replace(
            self,
            image_ids=self.image_ids[chosen],
            file_names=_taken(self.file_names, chosen),
            heights=self.heights[chosen],
            widths=self.widths[chosen],
            offsets=offsets,
            segmentations=None if self.segmentations is None else self.segmentations.take(annotations),
            negative=None if self.negative is None else self.negative.take(chosen),
            not_exhaustive=None if self.not_exhaustive is None else self.not_exhaustive.take(chosen),
            xywh=None if self.xywh is None else self.xywh[annotations],
            **columns,
        )

    def in_categories_of(self, train: "DetectionData") -> "DetectionData":
        """With the list of categories of a training set, which may have more; ValueError if a label means another one.

        Tools that export a test set often list only the categories that occur in it.
        """
        # As texts, because one of two tools may have written numbers as texts.
        ours, theirs = (
            dict(zip(map(str, data.categories.ids.tolist()), data.categories.names, strict=True))
            for data in (train, self)
        )
        if ours == theirs and train.categories.ids.dtype.kind == self.categories.ids.dtype.kind:
            return self
        is_federated = self.negative is not None or self.not_exhaustive is not None
        for number in {**ours, **theirs} if is_federated else theirs:
            if ours.get(number) != theirs.get(number):
                here, there = (f"{names[number]!r}" if number in names else "missing" for names in (theirs, ours))
                raise ValueError(
                    f"{self.source}: categories must be those of {train.source}, or some of them; id {number} is "
                    f"{here} here and {there} there"
                )
        label_of = {number: label for label, number in enumerate(ours)}
        index = np.array([label_of[number] for number in theirs], self.labels.dtype)
        return replace(self, categories=train.categories, labels=index[self.labels])

    def describe(self) -> str:
        """One line: how many images, annotations and categories."""
        groups = ", ".join(f"{len(members):,} {name}" for name, members in self.groups.items() if len(members))
        return (
            f"{self.source}: {len(self):,} images, {self.num_annotations:,} annotations, "
            f"{self.num_classes:,} categories ({groups})"
        )


def _taken(names: Sequence[str], images: NDArray[np.int64]) -> Sequence[str]:
    return names.take(images) if isinstance(names, StoredNames) else tuple(names[image] for image in images)


def take_ranges(
    offsets: NDArray[np.int64], rows: NDArray[np.int64], values: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Offsets and values of the given rows of a ragged array."""
    lengths = np.diff(offsets)[rows]
    new_offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    picks = np.arange(new_offsets[-1]) + np.repeat(offsets[rows] - new_offsets[:-1], lengths)
    return new_offsets, values[picks]
