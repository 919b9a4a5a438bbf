"""Readers of classification data: lists of `path label`, a folder for each category, arrays, and CIFAR.

`read_images` recognises the form by itself. The published long-tailed benchmarks are read by
`equigrad.data.images.published_lists`.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from equigrad.arrays import read_npz
from equigrad.csv_cells import restored
from equigrad.data.frequency import Counts
from equigrad.data.images.folders import image_paths
from equigrad.data.images.lists import SUFFIXES, ImageList
from equigrad.data.images.multi_label import CSV_SUFFIXES, MultiLabelList, read_multi_label, unknown_category
from equigrad.data.images.paths import inside
from equigrad.data.images.stores import ArrayStore, open_store, zip_parts
from equigrad.data.text_files import MAX_CATEGORIES, csv_table, name_lines, text_lines

_TEST_FOLDERS = ("test", "val", "valid", "validation")
_CIFAR_PIXELS = 3 * 32 * 32
_LABEL = re.compile(r"-?[0-9]{1,18}")  # what 64 bits hold
_SEPARATORS = " \t,;"  # between path and label
_END_OF_PATH = re.compile(rf"(?:{'|'.join(map(re.escape, SUFFIXES))})(?=[{_SEPARATORS}])", re.IGNORECASE)


def read_images(
    source: str | os.PathLike[str],
    root: str | os.PathLike[str] | None = None,
    *,
    split: Literal["train", "test"] = "train",
    class_names: Sequence[str] | None = None,
) -> ImageList:
    """Read images with labels in any of the known forms.

    Args:
        source: a list of lines `path label`; a CSV file of images and labels, with a line of names or not; a folder, a
            `.zip` file or a folder in one (`photos.zip/train`), with one folder of images for each category; a `.npz`
            file with `images` and `labels`; or the folder of CIFAR's binary version.
        root: what the paths of a list are relative to; None is the folder of the list.
        split: which part of CIFAR to read.
        class_names: the categories of the training set, when a test set is read.
    """
    source = Path(source)
    in_archive = zip_parts(source) is not None
    if not in_archive and not source.exists():
        raise FileNotFoundError(f"{source}: no such list, folder or file of images")
    if source.is_dir() and ((source / "batches.meta.txt").exists() or (source / "fine_label_names.txt").exists()):
        return read_cifar(source, split)
    if in_archive or source.is_dir():
        return read_image_folder(source, class_names=class_names)
    if source.suffix == ".json":
        raise ValueError(
            f"{source}: expected images with one label each, got an annotation file (.json), which has objects: "
            "own_data:detection trains on those, own_data:multi_label on their categories alone"
        )
    if source.suffix.lower() in CSV_SUFFIXES:
        return _one_category_each(read_multi_label(source, root, class_names=class_names))
    if source.suffix == ".npz":
        return read_arrays(source, class_names=class_names)
    return read_image_list(source, root or source.parent, class_names=class_names)


def _one_category_each(images: MultiLabelList) -> ImageList:
    """A CSV file as images with one label each; ValueError if one has none, or several."""
    wrong = np.flatnonzero(images.labels.sum(1) != 1)
    if len(wrong):
        names = [images.class_names[label] for label in np.flatnonzero(images.labels[wrong[0]])]
        raise ValueError(
            f"{images.source}: {images.paths[wrong[0]]}: expected one category, got {', '.join(names) or 'none'}; "
            "own_data:multi_label trains on images with any number of them"
        )
    return ImageList(images.store, images.paths, images.labels.argmax(1), images.class_names, images.source)


def read_image_list(
    file: str | os.PathLike[str],
    root: str | os.PathLike[str],
    *,
    num_classes: int | None = None,
    class_names: Sequence[str] | None = None,
) -> ImageList:
    """Read lines `path label`, with a space, a tab, a comma or a semicolon between them.

    Args:
        file: the list. Labels are numbers from 0, or all are names. A path may contain spaces; empty lines are skipped.
            A path that leaves the root is refused.
        root: what the paths are relative to: a folder, a `.zip` file, or a `.npz` file with indices as paths.
        num_classes: C; None takes it from the names, or else from the largest label.
        class_names: C names; None reads `classes.csv` beside the list, with the columns `label` and `name`, or else
            takes the labels as names, sorted.
    """
    file = Path(file)
    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such list of images; expected lines `path label`")
    paths, texts = _parse(file)
    if class_names is None:
        class_names = _names_beside(file)
    if not _is_number(texts[0]):
        class_names = sorted(set(texts)) if class_names is None else class_names
        labels = _named(file, texts, class_names)
    elif class_names is None:
        labels = np.array(texts, dtype=np.int64)
        class_names = _numbered(str(file), num_classes or int(labels.max()) + 1)
    elif all(map(str.isdecimal, class_names)) and list(class_names) != _numbered(str(file), len(class_names)):
        labels = _named(file, texts, class_names)  # of a CSV file, whose numbers may begin with 1
    else:
        labels = np.array(texts, dtype=np.int64)
    if num_classes is not None and len(class_names) != num_classes:
        raise ValueError(f"{file}: expected {num_classes} category names, got {len(class_names)}")
    return ImageList(open_store(root), paths, labels, tuple(class_names), str(file))


def _parse(file: Path) -> tuple[tuple[str, ...], list[str]]:
    """Paths and labels, of which all are numbers or all are names."""
    paths: list[str] = []
    labels: list[str] = []
    for number, line in enumerate(text_lines(file), start=1):
        text = line.strip()
        if not text:
            continue
        path, label = _divided(text)
        if not path or not label:
            hint = "; a table whose first line names its columns must be called .csv" if not labels else ""
            raise ValueError(f"{file}, line {number}: expected `path label`{hint}, got {text!r:.80}")
        if labels and _is_number(label) != _is_number(labels[0]):
            kind = "a number" if _is_number(labels[0]) else "a name"
            raise ValueError(
                f"{file}, line {number}: expected `path label`, {kind} as label as before, got {text!r:.80}"
            )
        paths.append(inside(path, f"{file}, line {number}"))
        labels.append(label)
    if not paths:
        raise ValueError(f"{file}: expected lines `path label`, found none")
    return tuple(paths), labels


def _divided(line: str) -> tuple[str, str]:
    """Path and label; both may have spaces in them, a path without the suffix of an image only before a number."""
    ends = [match.end() for match in _END_OF_PATH.finditer(line)]
    last = ends[-1] if ends else max(0, *map(line.rfind, _SEPARATORS))
    path, label = line[:last].rstrip(_SEPARATORS), line[last:].strip(_SEPARATORS)
    return (path, label) if ends or _is_number(label) else ("", "")


def _is_number(label: str) -> bool:
    return _LABEL.fullmatch(label) is not None


def _named(file: Path, labels: Sequence[str], class_names: Sequence[str]) -> Counts:
    """Labels that are names, as indices of names; ValueError if one is none of them."""
    label_of = {name: label for label, name in enumerate(class_names)}
    unknown = next((label for label in labels if label not in label_of), None)
    if unknown is not None:
        raise ValueError(f"{file}: {unknown_category(unknown, len(class_names))}")
    return np.array([label_of[label] for label in labels], dtype=np.int64)


def _names_beside(file: Path) -> list[str] | None:
    classes = file.parent / "classes.csv"
    if not classes.is_file():
        return None
    rows = csv_table(classes)
    if not rows or not {"label", "name"} <= rows[0].keys():
        raise ValueError(f"{classes}: expected the columns label and name")
    if [row["label"] for row in rows] != [str(label) for label in range(len(rows))]:
        raise ValueError(f"{classes}: expected the labels 0..{len(rows) - 1} in order")
    return [restored(row["name"]) for row in rows]


def _numbered(source: str, num_classes: int) -> list[str]:
    """Labels as names."""
    if num_classes > MAX_CATEGORIES:
        raise ValueError(f"{source}: expected labels below {MAX_CATEGORIES:,}, got {num_classes - 1:,}")
    return [str(label) for label in range(num_classes)]


def read_image_folder(root: str | os.PathLike[str], *, class_names: Sequence[str] | None = None) -> ImageList:
    """Read a folder or `.zip` that has one folder of images for each category; labels follow the sorted names.

    Args:
        root: the folder of folders, or the archive.
        class_names: the categories in the order of labels, such as those of the training set; None takes the folders.
    """
    store = open_store(root)
    paths = [path for path in image_paths(store) if "/" in path]
    if not paths:
        annotations = next(iter(sorted(Path(root).glob("*.json"))), None)
        hint = f"; {annotations} may have boxes: name that file, with --images {root}" if annotations else ""
        if (Path(root) / "recipe.json").is_file():
            hint = "; it is the folder of a run"
        if not hint and image_paths(store):
            hint = "; name the folder above, if this one is a category"
        raise ValueError(f"{root}: expected one folder of images for each category, found no image in any folder{hint}")
    folders = [path.split("/", 1)[0] for path in paths]
    if class_names is None and set(folders) >= {"train"} and set(folders) & set(_TEST_FOLDERS):
        test = sorted(set(folders) & set(_TEST_FOLDERS))[0]
        raise ValueError(
            f"{root}: its folders are parts of a data set, not categories: name {root}/train to train on and "
            f"{root}/{test} to test on"
        )
    names = tuple(sorted(set(folders))) if class_names is None else tuple(class_names)
    label_of = {name: label for label, name in enumerate(names)}
    unknown = sorted(set(folders) - label_of.keys())
    if unknown:
        raise ValueError(
            f"{root}: the folder {unknown[0]} is not one of the {len(names)} categories of the training set; remove "
            "it, or add training images of it"
        )
    return ImageList(store, tuple(paths), np.array([label_of[name] for name in folders]), names, str(root))


def read_arrays(file: str | os.PathLike[str], *, class_names: Sequence[str] | None = None) -> ImageList:
    """Read a `.npz` file with `images` (N, H, W, 3) uint8 and `labels` (N,)."""
    file = Path(file)
    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such file; expected .npz with images (N, H, W, 3) and labels (N,)")
    arrays = read_npz(file, ["images", "labels"])
    return _array_list(ArrayStore(arrays["images"], file), arrays["labels"], class_names, str(file))


def read_cifar(folder: str | os.PathLike[str], split: Literal["train", "test"]) -> ImageList:
    """Read CIFAR-10 or CIFAR-100, binary version; the Python version is pickled, and unpickling could run any code."""
    folder = Path(folder)
    if (folder / "batches.meta.txt").is_file():
        names_file, files, num_labels = "batches.meta.txt", [f"data_batch_{number}.bin" for number in range(1, 6)], 1
    elif (folder / "fine_label_names.txt").is_file():
        names_file, files, num_labels = "fine_label_names.txt", ["train.bin"], 2
    else:
        raise FileNotFoundError(
            f"{folder}: expected CIFAR's binary version, cifar-10-batches-bin with batches.meta.txt or "
            "cifar-100-binary with fine_label_names.txt"
        )
    if split == "test":
        files = ["test_batch.bin" if num_labels == 1 else "test.bin"]
    records = np.concatenate([_cifar_records(folder / file, num_labels) for file in files])
    images = records[:, num_labels:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    names = [name for name in name_lines(folder / names_file) if name]
    store = ArrayStore(np.ascontiguousarray(images), folder / split)
    return _array_list(store, records[:, num_labels - 1], names, f"{folder} ({split})")


def _cifar_records(file: Path, num_labels: int) -> NDArray[np.uint8]:
    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such file; expected a part of CIFAR's binary version")
    content = np.fromfile(file, dtype=np.uint8)
    length = num_labels + _CIFAR_PIXELS
    if content.size == 0 or content.size % length:
        raise ValueError(f"{file}: expected records of {length} bytes, got {content.size} bytes")
    return content.reshape(-1, length)


def _array_list(store: ArrayStore, labels: NDArray[Any], class_names: Sequence[str] | None, source: str) -> ImageList:
    if labels.shape != (len(store.images),) or not np.issubdtype(labels.dtype, np.integer) or not labels.size:
        raise ValueError(f"{source}: labels must be {len(store.images)} integers, got {labels.shape} {labels.dtype}")
    names = class_names if class_names is not None else _numbered(source, int(labels.max()) + 1)
    paths = tuple(str(index) for index in range(len(labels)))
    return ImageList(store, paths, labels.astype(np.int64), tuple(names), source)
