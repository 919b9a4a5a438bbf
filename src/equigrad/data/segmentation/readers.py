"""Readers of segmentation data: ADE20K and the like (SceneParsing), folders of index PNGs, and CamVid.

Images and label maps are in a folder, or in a zip archive that is read without unpacking.
"""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from equigrad.csv_cells import restored
from equigrad.data.frequency import load_frequencies
from equigrad.data.images.lists import is_image_path
from equigrad.data.images.stores import ArrayStore, FolderStore, ImageStore, ZipStore, open_store
from equigrad.data.segmentation.data import SegmentationData, stem
from equigrad.data.segmentation.label_maps import LabelValues
from equigrad.data.text_files import csv_table, name_lines

PathLike = str | os.PathLike[str]
ClassNames = PathLike | Sequence[str]  # a file of names, or the names

_ID_COLUMNS = ("id", "idx", "label", "value", "index")
_VOID = 255
_VALUE = re.compile("[0-9]{1,9}")


def read_label_folders(
    images: PathLike,
    labels: PathLike,
    class_names: ClassNames,
    *,
    root: PathLike = ".",
    ignored: int | Sequence[int] = _VOID,
) -> SegmentationData:
    """Read a folder of images and a folder of index PNGs with the same names, subfolders included.

    Args:
        images: the folder of images.
        labels: the folder of label maps with one channel, which may have a palette; a pixel's value is its category.
        class_names: a `.txt` file, whose line k, counted from 0, is the name of value k; a `.csv` file with the columns
            `id` and `name`, whose ids may have gaps and become 0 … C-1 in the order of rows; or the names.
        root: what both folders are relative to: a folder or a `.zip` file.
        ignored: values of pixels that do not count.
    """
    names, values = _names_and_values(class_names)
    try:
        meaning = LabelValues(values, (ignored,) if isinstance(ignored, int) else tuple(ignored))
    except ValueError as error:
        raise ValueError(f"{class_names}: {error}") from None
    return _paired(open_store(root), Path(images).as_posix(), Path(labels).as_posix(), names, meaning)


def read_ade20k(root: PathLike, split: Literal["training", "validation"]) -> SegmentationData:
    """Read ADE20K of the scene parsing challenge: 150 categories in the order of `objectInfo150`; 0 is ignored."""
    return read_scene_parsing(root, split, class_names=load_frequencies("ade20k").names)


def read_scene_parsing(
    root: PathLike, split: Literal["training", "validation"], *, class_names: ClassNames | None = None
) -> SegmentationData:
    """Read the layout of ADE20K: `images/{split}`, `annotations/{split}`; value 0 is ignored, j + 1 is category j.

    Args:
        root: folder or zip archive with these folders, directly or inside one other folder.
        split: "training" or "validation".
        class_names: as in `read_label_folders`; None reads `objectInfo.csv` beside the two folders.
    """
    store = open_store(root)
    top = _top(store, f"images/{split}")
    if class_names is None:
        class_names = Path(root, top, "objectInfo.csv")
    names, _ = _names_and_values(class_names)
    values = LabelValues.consecutive(len(names), first=1, ignored=(0,))
    return _paired(store, f"{top}images/{split}", f"{top}annotations/{split}", names, values)


def read_camvid(folder: PathLike, split: Literal["train", "val", "test"]) -> SegmentationData:
    """Read CamVid, 31 categories: `classes.csv`, and `images_labels.zip` with `{split}/images` and `{split}/labels`."""
    return read_label_folders(
        f"{split}/images",
        f"{split}/labels",
        Path(folder, "classes.csv"),
        root=Path(folder, "images_labels.zip"),
    )


def _paired(
    store: ImageStore, images: str, labels: str, class_names: Sequence[str], values: LabelValues
) -> SegmentationData:
    """The images and label maps of two folders, matched by name; ValueError if one has no partner."""
    if isinstance(store, FolderStore):  # users name the two folders, so these may lie anywhere
        store = FolderStore(store.root, within=(store.root / images, store.root / labels))
    pictures, maps = _files(store, images), _files(store, labels)
    for kind, found, folder in (("images", pictures, images), ("label maps", maps, labels)):
        if not found:
            raise ValueError(f"{store.name(folder)}: no {kind} there")
    for kind, unpaired, found in (
        ("label map", sorted(pictures.keys() - maps.keys()), pictures),
        ("image", sorted(maps.keys() - pictures.keys()), maps),
    ):
        if unpaired:
            more = f", nor for {len(unpaired) - 1:,} more" if len(unpaired) > 1 else ""
            raise ValueError(
                f"{store.name(found[unpaired[0]])}: there is no {kind} with this name{more}; an image and its "
                "label map have one name, apart from the suffix"
            )
    names = tuple(sorted(pictures))
    paths, label_paths = tuple(pictures[name] for name in names), tuple(maps[name] for name in names)
    return SegmentationData(store, store, paths, label_paths, names, tuple(class_names), values, store.name(images))


def _files(store: ImageStore, folder: str) -> dict[str, str]:
    """Paths of the images below a folder of a store, by their name: subfolders and file name without suffix."""
    if isinstance(store, ArrayStore):
        raise ValueError(f"{store.root}: expected a folder or a .zip file")
    if isinstance(store, ZipStore):
        prefix = f"{folder}/"
        below: Iterable[str] = (path[len(prefix) :] for path in store.paths() if path.startswith(prefix))
    else:
        base = store.root / folder
        below = (path.relative_to(base).as_posix() for path in base.rglob("*") if path.is_file())
    found: dict[str, str] = {}
    for path in sorted(below):
        if not is_image_path(path):
            continue
        if stem(path) in found:
            raise ValueError(f"{store.name(folder)}: {path} has the same name as another image")
        found[stem(path)] = f"{folder}/{path}"
    return found


def _top(store: ImageStore, folder: str) -> str:
    """The path before `folder` in a store: empty, or the one folder that contains it, with a slash."""
    if isinstance(store, ZipStore):
        tops = sorted({path[: path.index(f"{folder}/")] for path in store.paths() if f"{folder}/" in path})
    else:
        found = [store.root / folder, *sorted(store.root.glob(f"*/{folder}"))]
        tops = [path.relative_to(store.root).as_posix().removesuffix(folder) for path in found if path.is_dir()]
    if not tops:
        raise FileNotFoundError(f"{store.root}: expected {folder}/ in it")
    return tops[0]


def _names_and_values(class_names: ClassNames) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Names of the categories and the value of each."""
    if isinstance(class_names, str | os.PathLike):
        file = Path(class_names)
        if not file.is_file():
            raise FileNotFoundError(f"{file}: no such file; expected the names of the categories, .txt or .csv")
        return _named_rows(file) if file.suffix == ".csv" else _named_lines(file)
    return tuple(class_names), tuple(range(len(class_names)))


def _named_lines(file: Path) -> tuple[tuple[str, ...], tuple[int, ...]]:
    names = name_lines(file)
    while names and not names[-1]:  # empty lines at the end
        names.pop()
    if not names or not all(names):
        raise ValueError(f"{file}: expected the name of a category on every line")
    return tuple(names), tuple(range(len(names)))


def _named_rows(file: Path) -> tuple[tuple[str, ...], tuple[int, ...]]:
    rows = csv_table(file)
    column = next((name for name in _ID_COLUMNS if rows and name in rows[0]), None)
    if column is None or "name" not in rows[0]:
        raise ValueError(f"{file}: expected the columns id and name, and a row for each category")
    for number, row in enumerate(rows, start=2):
        if not _VALUE.fullmatch(row[column].strip()) or not row["name"].strip():
            raise ValueError(f"{file}, line {number}: expected a whole number as {column} and a name")
    return tuple(restored(row["name"]).strip() for row in rows), tuple(int(row[column]) for row in rows)
