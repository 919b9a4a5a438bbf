"""OpenImages Challenge 2019 as published: boxes, group-of flags, verified image-level labels and the class hierarchy.

    train = read_openimages("annotations", "train", images="train")
    train.detection                                    # DetectionData: what `DetectionDataset` takes
    validation = read_openimages("annotations", "validation", sizes="validation_sizes.csv")

docs/openimages.md describes the files, and when boxes and labels are expanded along the hierarchy.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from equigrad.data.detection.data import Categories, CategoryLists, DetectionData, take_ranges
from equigrad.data.detection.formats.class_hierarchy import ClassHierarchy, read_hierarchy
from equigrad.data.detection.formats.csv_blocks import CsvBlock, csv_blocks
from equigrad.data.detection.formats.openimages_sizes import (
    Sizes,
    measure_image_sizes,
    read_image_sizes,
    write_image_sizes,
)
from equigrad.data.frequency import Counts
from equigrad.data.text_files import csv_rows

Split = Literal["train", "validation"]
Names = NDArray[np.bytes_]

CLASSES_FILE = "challenge-2019-classes-description-500.csv"
HIERARCHY_FILE = "challenge-2019-label500-hierarchy.json"
BOXES_FILE = "challenge-2019-{split}-detection-bbox.csv"
LABELS_FILE = "challenge-2019-{split}-detection-human-imagelabels.csv"
EXPECTED_FILES = (
    f"put {CLASSES_FILE}, {HIERARCHY_FILE}, {BOXES_FILE.format(split='<split>')} and "
    f"{LABELS_FILE.format(split='<split>')} in one folder"
)

ID_LENGTH = 32  # longest identifier in bytes; those of OpenImages' images have 16
TOLERANCE = 1e-6  # for rounding in relative coordinates
_SIDES = ("XMin", "YMin", "XMax", "YMax")
_IDS = {"ImageID": f"S{ID_LENGTH}", "LabelName": f"S{ID_LENGTH}"}


@dataclass(frozen=True, eq=False)
class OpenImagesData:
    """A split: boxes with their most specific category, and the labels that people verified for each image."""

    detection: DetectionData  # image ids start at 0, category ids at 1; group-of boxes are not crowds
    image_names: Names  # (I,) OpenImages' own ids, ascending
    mids: tuple[str, ...]  # C identifiers, such as /m/0bt9lr
    is_group_of: NDArray[np.bool_]  # (M,) whether a box surrounds several objects
    positive: CategoryLists | None  # categories verified to be in an image; None if they were not read
    hierarchy: ClassHierarchy | None  # None once boxes are expanded

    @property
    def negative(self) -> CategoryLists | None:
        """Categories verified to be absent from an image; None if they were not read."""
        return self.detection.negative

    def subset(self, images: NDArray[np.int64]) -> "OpenImagesData":
        """Some of the images, in the given order; all categories stay."""
        return replace(
            self,
            detection=self.detection.subset(images),
            image_names=self.image_names[images],
            is_group_of=take_ranges(self.detection.offsets, images, self.is_group_of)[1],
            positive=None if self.positive is None else self.positive.take(images),
        )

    def without_groups(self) -> "OpenImagesData":
        """The data without group-of boxes."""
        rows = np.flatnonzero(~self.is_group_of)
        return self._with_boxes(rows, self.detection.labels[rows])

    def with_ancestors(self) -> "OpenImagesData":
        """Repeat boxes for the ancestors of their category, for training; the evaluator expands by itself."""
        if self.hierarchy is None:
            return self
        return replace(self._with_boxes(*self.hierarchy.upwards(self.detection.labels)), hierarchy=None)

    def write_sizes(self, file: str | os.PathLike[str]) -> Path:
        """Write the sizes of images for `read_openimages(..., sizes=file)`, which then does not open the images."""
        sizes = np.stack([self.detection.widths, self.detection.heights], 1)
        return write_image_sizes(file, [name.decode() for name in self.image_names], sizes)

    def _with_boxes(self, rows: NDArray[np.int64], labels: NDArray[Any]) -> "OpenImagesData":
        """The data with other boxes: ascending indices of the present boxes, and new labels."""
        data = self.detection
        detection = replace(
            data,
            offsets=np.searchsorted(rows, data.offsets),
            boxes=data.boxes[rows],
            labels=labels.astype(np.int32),
            areas=data.areas[rows],
            is_crowd=data.is_crowd[rows],
            ids=np.arange(1, len(rows) + 1),
        )
        return replace(self, detection=detection, is_group_of=self.is_group_of[rows])


def read_openimages(
    root: str | os.PathLike[str],
    split: Split,
    *,
    images: str | os.PathLike[str] | None = None,
    sizes: str | os.PathLike[str] | None = None,
    verified: bool | None = None,
) -> OpenImagesData:
    """Read a split of the OpenImages Challenge 2019.

    Args:
        root: the folder of the CSV files and the hierarchy.
        split: "train" or "validation".
        images: folder or `.zip` with `<ImageID>.jpg`; sizes are read from the files' headers unless `sizes` is given.
        sizes: CSV file with the columns ImageID, Width and Height.
        verified: whether to read image-level labels, which evaluation needs; None reads them for validation only.
            Images that have only such labels and no boxes are then part of the data.
    """
    if split not in ("train", "validation"):
        raise ValueError(f'split must be "train" or "validation", got {split!r}')
    if images is None and sizes is None:
        raise ValueError("boxes are relative to the image size: pass images (a folder or .zip) or sizes (a CSV file)")
    root = Path(root)
    mids, names = read_classes(_existing_file(root, CLASSES_FILE))
    hierarchy = read_hierarchy(_existing_file(root, HIERARCHY_FILE), mids)
    box_file = _existing_file(root, BOXES_FILE.format(split=split))
    boxes, labels = _read_rows(box_file, mids, dict.fromkeys(_SIDES, "f8"), {"IsGroupOf": "f8"}), None
    if verified if verified is not None else split == "validation":
        labels = _read_rows(_existing_file(root, LABELS_FILE.format(split=split)), mids, {"Confidence": "f8"})
    image_names = np.unique(np.concatenate([rows.heads for rows in (boxes, labels) if rows is not None]))
    file_names = tuple(f"{name.decode()}.jpg" for name in image_names)
    if sizes is not None:
        image_sizes = read_image_sizes(sizes, image_names)
    else:
        assert images is not None
        image_sizes = measure_image_sizes(images, file_names)
    order = np.argsort(boxes.images(image_names), kind="stable")
    detection = DetectionData(
        source=str(box_file),
        image_ids=np.arange(len(image_names)),
        file_names=file_names,
        widths=image_sizes[:, 0].copy(),
        heights=image_sizes[:, 1].copy(),
        categories=Categories(np.arange(1, len(mids) + 1), names),
        negative=None if labels is None else _lists(labels, image_names, confidence=0),
        **_annotations(boxes, order, image_names, image_sizes),
    )
    positive = None if labels is None else _lists(labels, image_names, confidence=1)
    return OpenImagesData(detection, image_names, mids, boxes["IsGroupOf"][order] == 1, positive, hierarchy)


def is_openimages(folder: Path) -> bool:
    """Whether a folder has the files of the challenge."""
    return (folder / CLASSES_FILE).is_file()


class Totals(NamedTuple):
    """What a split has."""

    names: tuple[str, ...]  # of the C categories
    num_images: int
    box_counts: Counts  # of each category, (C,)


def openimages_totals(folder: Path) -> dict[Split, Totals]:
    """Categories, images and boxes of each split that is there, without opening any image.

    All rows are checked. Images count that have a box or a verified label.
    """
    mids, names = read_classes(_existing_file(folder, CLASSES_FILE))
    read_hierarchy(_existing_file(folder, HIERARCHY_FILE), mids)
    totals: dict[Split, Totals] = {}
    for split in get_args(Split):
        if not (folder / BOXES_FILE.format(split=split)).is_file():
            continue
        boxes = _read_rows(folder / BOXES_FILE.format(split=split), mids, dict.fromkeys(_SIDES, "f8"))
        heads = [boxes.heads]
        if (labels := folder / LABELS_FILE.format(split=split)).is_file():
            heads.append(_read_rows(labels, mids, {"Confidence": "f8"}).heads)
        counts = np.bincount(boxes["labels"], minlength=len(names)).astype(np.int64)
        totals[split] = Totals(names, len(np.unique(np.concatenate(heads))), counts)
    if not totals:
        raise FileNotFoundError(f"{folder}: expected {BOXES_FILE.format(split='train')}, or that of validation")
    return totals


def read_classes(file: str | os.PathLike[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Identifiers and names of the categories from lines `mid,name`, in the order of labels."""
    file = Path(file)
    name_of: dict[str, str] = {}
    for number, row in csv_rows(file):
        where = f"{file}, line {number}"
        if len(row) != 2 or not row[0].startswith("/"):
            raise ValueError(f"{where}: expected `/m/...,name`, got {','.join(row)[:80]!r}")
        if row[0] in name_of:
            raise ValueError(f"{where}: {row[0]} is listed twice")
        name_of[row[0]] = row[1]
    if not name_of:
        raise ValueError(f"{file}: expected lines `/m/...,name`, found none")
    return tuple(name_of), tuple(name_of.values())


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of a file; the name of the image is stored once for consecutive rows of the same image."""

    heads: Names  # (R,)
    lengths: NDArray[np.int64]  # (R,)
    columns: dict[str, NDArray[Any]]  # (N, ...) each

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def images(self, image_names: Names) -> NDArray[np.int64]:
        """Index of the image of each row, (N,)."""
        return np.repeat(np.searchsorted(image_names, self.heads), self.lengths)


def _read_rows(
    file: Path, mids: Sequence[str], numbers: dict[str, str], optional: dict[str, str] | None = None
) -> _Rows:
    """Read ImageID, LabelName (as a label) and numeric columns."""
    heads, lengths, parts = [], [], []
    for block in csv_blocks(file, _IDS | numbers, optional):
        names = block["ImageID"]
        begins = np.flatnonzero(np.concatenate([[True], names[1:] != names[:-1]]))
        heads.append(names[begins])
        lengths.append(np.diff(begins, append=len(names)))
        parts.append({"labels": _labels(block, mids), **_checked_numbers(block)})
    if not parts:
        raise ValueError(f"{file}: expected rows below the header, found none")
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    _check_names(file, np.unique(np.concatenate(heads)))
    return _Rows(np.concatenate(heads), np.concatenate(lengths), columns)


def _labels(block: CsvBlock, mids: Sequence[str]) -> NDArray[np.int32]:
    known = np.array(mids, dtype=_IDS["LabelName"])
    ascending = np.argsort(known)
    ranks = np.searchsorted(known, block["LabelName"], sorter=ascending)
    labels = ascending[np.minimum(ranks, len(mids) - 1)].astype(np.int32)
    block.require(known[labels] == block["LabelName"], "LabelName", f"the mid of one of the {len(mids)} categories")
    return labels


def _checked_numbers(block: CsvBlock) -> dict[str, NDArray[Any]]:
    """The numeric columns of a block, checked and in small types."""
    if "Confidence" in block:
        block.require(np.isin(block["Confidence"], (0, 1)), "Confidence", "0 or 1, as people verify labels")
        return {"Confidence": block["Confidence"].astype(np.int8)}
    for name in _SIDES:
        block.require((block[name] >= -TOLERANCE) & (block[name] <= 1 + TOLERANCE), name, "in [0, 1]")
    for low, high in (("XMin", "XMax"), ("YMin", "YMax")):
        block.require(block[low] <= block[high], low, f"at most {high}")
    is_group_of = block["IsGroupOf"] if "IsGroupOf" in block else np.zeros(len(block))
    block.require(np.isin(is_group_of, (-1, 0, 1)), "IsGroupOf", "1, 0 or, where unknown, -1")
    boxes = np.stack([block[name] for name in _SIDES], 1).clip(0, 1)
    return {"boxes": boxes.astype(np.float32), "IsGroupOf": is_group_of.astype(np.int8)}


def _check_names(file: Path, names: Names) -> None:
    # Names become file names, so they must not be cut off and must not leave the folder of images.
    for name in names.tolist():
        if len(name) >= ID_LENGTH or not re.fullmatch(rb"[\w-]+", name):
            raise ValueError(
                f"{file}: ImageID must be less than {ID_LENGTH} letters and digits, got {name.decode('latin-1')!r}"
            )


def _annotations(boxes: _Rows, order: NDArray[np.int64], image_names: Names, image_sizes: Sizes) -> dict[str, Any]:
    """The annotation columns, sorted by image; boxes in pixels."""
    images = boxes.images(image_names)
    corners = boxes["boxes"][order] * np.tile(image_sizes, 2).astype(np.float32)[images[order]]
    sides = (corners[:, 2:] - corners[:, :2]).astype(np.float64)
    return {
        "offsets": _offsets(images, len(image_names)),
        "boxes": corners,
        "labels": boxes["labels"][order],
        "areas": sides[:, 0] * sides[:, 1],
        "is_crowd": np.zeros(len(order), np.bool_),
        "ids": order + 1,  # the number of the row in the file
    }


def _lists(labels: _Rows, image_names: Names, *, confidence: int) -> CategoryLists:
    """The categories of each image that were verified with this confidence, without repetition."""
    chosen = labels["Confidence"] == confidence
    pairs = np.unique(labels["labels"][chosen] + (labels.images(image_names)[chosen] << 32))
    return CategoryLists(_offsets(pairs >> 32, len(image_names)), (pairs & 0xFFFFFFFF).astype(np.int32))


def _offsets(images: NDArray[np.int64], num_images: int) -> NDArray[np.int64]:
    counts = np.bincount(images, minlength=num_images)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _existing_file(root: Path, name: str) -> Path:
    file = root / name
    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such file; {EXPECTED_FILES}")
    return file
