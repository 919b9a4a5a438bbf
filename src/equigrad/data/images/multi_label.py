"""Images with any number of categories each: a CSV file, a folder with one, or the objects of an annotation file.

image,categories                image,cat,dog,boat
a.jpg,cat;dog                   a.jpg,1,1,0
b.jpg,                          b.jpg,0,0,0

Without a first line of names, two columns are an image and its categories.
"""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from equigrad.csv_cells import restored
from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.detection.formats.coco_paths import existing_paths
from equigrad.data.frequency import Counts
from equigrad.data.images.lists import ImageList, is_image_path
from equigrad.data.images.paths import inside
from equigrad.data.images.stores import open_store
from equigrad.data.text_files import DELIMITERS, MAX_CATEGORIES, csv_rows, delimiter_of

FILE = "labels.csv"
"""What the CSV file in a folder of images is called."""
CSV_SUFFIXES = (".csv", ".tsv")

_IMAGE = ("image", "filename", "file_name", "file", "path", "image_path")  # headings of the column of images
_LISTED = ("categories", "labels", "tags", "classes", "category", "label", "class")  # and of that of categories
_ONES, _ZEROS = ("1", "1.0", "true"), ("0", "0.0", "false")
_MAX_ENTRIES = 1 << 31  # of the matrix


@dataclass(frozen=True, eq=False)
class MultiLabelList(ImageList):
    """An `ImageList` whose labels (N, C) are 1 where the image shows the category, else 0."""

    @cached_property
    def category_counts(self) -> Counts:
        """Number of images that show each category, (C,)."""
        counts: Counts = self.labels.sum(0, dtype=np.int64)
        return counts

    @property
    def labels_present(self) -> set[int]:
        """The categories that occur."""
        return set(np.flatnonzero(self.labels.any(0)).tolist())

    def is_out_of_range(self) -> NDArray[np.bool_]:
        """No image: names, not numbers, say which categories it has."""
        return np.zeros(len(self), dtype=np.bool_)

    def target(self, index: int) -> NDArray[np.float32]:
        """What a loss is given for an image, (C,)."""
        row: NDArray[np.float32] = self.labels[index].astype(np.float32)
        return row


def has_label_file(source: Path) -> bool:
    """Whether this is a CSV file of categories, or a folder of images with one."""
    return source.suffix.lower() in CSV_SUFFIXES or (source.is_dir() and (source / FILE).is_file())


def is_multi_label(source: Path) -> bool:
    """Whether this is a folder of images with such a file, or a CSV file in which not every image has one category."""
    if source.is_file() and has_label_file(source):
        return any(len(found) != 1 for found in _parse(source)[1])
    return has_label_file(source)


def read_multi_label(
    source: str | os.PathLike[str],
    root: str | os.PathLike[str] | None = None,
    *,
    class_names: Sequence[str] | None = None,
) -> MultiLabelList:
    """Read images with their categories.

    Args:
        source: a CSV file with the columns `image` and `categories` (names with `;` or `|` between them), or `image`
            and a column of 0 and 1 for each category; a folder with such a file, `labels.csv`; or a COCO or LVIS file
            (.json), in which an image has the categories of its objects.
        root: folder or `.zip` that the paths start from; None is the folder of the file.
        class_names: the categories of the training set, when a test set is read; None takes those of the file, sorted,
            or in the order of its columns or category ids.
    """
    source = Path(source)
    file = source / FILE if source.is_dir() else source
    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such file; expected CSV with the columns image and categories")
    root = file.parent if root is None else Path(root)
    if file.suffix.lower() == ".json":
        return _of_objects(file, root, class_names)
    paths, categories, columns = _parse(file)
    names = tuple(class_names or columns or _sorted({name for row in categories for name in row}))
    if not names:
        raise ValueError(f"{file}: expected a category in at least one image, found none")
    return MultiLabelList(open_store(root), paths, _matrix(file, categories, names), names, str(source))


def _of_objects(file: Path, root: Path, class_names: Sequence[str] | None) -> MultiLabelList:
    data, store = read_coco(file), open_store(root)
    names, found = data.categories.names, [[] for _ in range(len(data))]  # type: tuple[str, ...], list[list[str]]
    for image, label in zip(*(column.tolist() for column in data.presence), strict=True):
        found[image].append(names[label])
    paths = tuple(existing_paths(store, data.file_names))
    chosen = tuple(class_names or names)
    return MultiLabelList(store, paths, _matrix(file, found, chosen), chosen, str(file))


def _parse(file: Path) -> tuple[tuple[str, ...], list[list[str]], list[str]]:
    """Paths, the categories of each image and, if there is a column for each category, all of them."""
    delimiter = _delimiter_without_header(file)
    rows = csv_rows(file, delimiter)
    header = ["image", "categories"] if delimiter else next(rows, (0, []))[1]
    columns = [name.strip() for name in header]
    lowered = [name.lower() for name in columns]
    image = next((lowered.index(name) for name in _IMAGE if name in lowered), None)
    if image is None or len(columns) < 2:
        found = f"got {', '.join(columns)!r:.100}"
        if any(map(is_image_path, columns)):
            found += ", which is no line of names but that of an image: write one above it"
        raise ValueError(
            f"{file}: expected the columns image and categories, or image and one for each category, {found}"
        )
    names = [restored(name) for name in columns]
    listed = next((lowered.index(name) for name in _LISTED if name in lowered), None)
    separator = re.compile("[;|]" if (delimiter or delimiter_of(file)) == "," else "[,;|]")
    paths, categories = [], []
    for number, row in rows:
        cells = [cell.strip() for cell in (*row, *[""] * (len(columns) - len(row)))]
        name = f"{file}, line {number}"
        if delimiter and len(row) != 2:
            raise ValueError(
                f"{name}: expected an image and its categories, as in the first line, got {len(row)} cells"
            )
        paths.append(inside(cells[image], name))
        if listed is not None:
            categories.append([restored(part.strip()) for part in separator.split(cells[listed]) if part.strip()])
        else:
            pairs = [
                (names[column], cells[column]) for column in range(len(columns)) if column != image and names[column]
            ]
            categories.append(_shown(pairs, name))
    if not paths:
        raise ValueError(f"{file}: expected a line for each image below the header, found none")
    return (
        tuple(paths),
        categories,
        [] if listed is not None else [each for each in names if each not in ("", names[image])],
    )


def _delimiter_without_header(file: Path) -> str | None:
    """What is between the two columns of a file that begins with an image and its categories; None for others."""
    for delimiter in DELIMITERS:
        _, first = next(csv_rows(file, delimiter), (0, []))
        if len(first) == 2 and is_image_path(first[0].strip()):
            return delimiter
    return None


def _sorted(names: set[str]) -> list[str]:
    """Names in alphabetical order, numbers in theirs."""
    return sorted(names, key=int if all(name.isdecimal() and len(name) < 20 for name in names) else None)


def _shown(cells: Iterable[tuple[str, str]], line: str) -> list[str]:
    """The categories whose cells are 1."""
    shown = []
    for category, cell in cells:
        if cell.lower() not in (*_ONES, *_ZEROS):
            raise ValueError(f"{line}: {category}: expected 0 or 1, got {cell!r:.40}")
        if cell.lower() in _ONES:
            shown.append(category)
    return shown


def _matrix(file: Path, categories: Sequence[Sequence[str]], names: Sequence[str]) -> NDArray[np.int64]:
    if len(names) > MAX_CATEGORIES or len(names) * len(categories) > _MAX_ENTRIES:
        raise ValueError(f"{file}: {len(categories):,} images of {len(names):,} categories are too many")
    label_of = {name: label for label, name in enumerate(names)}
    labels = np.zeros((len(categories), len(names)), dtype=np.uint8)
    for row, found in zip(labels, categories, strict=True):
        unknown = next((name for name in found if name not in label_of), None)
        if unknown is not None:
            raise ValueError(f"{file}: {unknown_category(unknown, len(names))}")
        row[[label_of[name] for name in found]] = 1
    return labels  # type: ignore[return-value]


def unknown_category(name: str, num_classes: int) -> str:
    """What is wrong with a category that a test set names and its training set does not have."""
    return (
        f"{name!r:.60} is not one of the {num_classes} categories of the training set; "
        "correct the name, or add training images of it"
    )
