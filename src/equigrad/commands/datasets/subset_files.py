"""A chosen part of a data set on disk: a list of its files, or arrays."""

from pathlib import Path

import numpy as np

from equigrad.csv_cells import restored
from equigrad.data.images.lists import ImageList
from equigrad.data.images.stores import ArrayStore
from equigrad.data.text_files import csv_table
from equigrad.evaluation.tables import write_table
from equigrad.files import atomic_write

_ARRAYS = ".npz"
_NAMES = "classes.csv"  # beside a list: label, name


def check_target(images: ImageList, file: Path, *, force: bool) -> None:
    """Refuse a file that cannot hold a part of these images, or that exists, unless forced."""
    is_array = isinstance(images.store, ArrayStore)
    if file.suffix == _ARRAYS and not is_array:
        raise ValueError(f"{file}: images in files are listed; expected the name of a list, such as train_lt.txt")
    if file.suffix != _ARRAYS and is_array and images.store.root.suffix != _ARRAYS:
        raise ValueError(f"{file}: CIFAR's images have no paths to list; expected a name that ends in {_ARRAYS}")
    if force:
        return
    if file.exists():
        raise FileExistsError(f"{file} exists; --force replaces it")
    names = file.with_name(_NAMES)
    if file.suffix != _ARRAYS and names.exists() and _stored_names(names) != list(images.class_names):
        raise FileExistsError(f"{names} has other categories, and would name those of {file.name}; --force replaces it")


def write_subset(images: ImageList, file: Path) -> None:
    """Write `.npz` arrays, or a list of lines `path label` and, where categories have names, these beside it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == _ARRAYS:
        pixels = np.stack([np.asarray(images.store.read(path)) for path in images.paths])
        with atomic_write(file) as stream:
            np.savez_compressed(stream, images=pixels, labels=images.labels)
        return
    numbers = [str(label) for label in range(images.num_classes)]
    names = file.with_name(_NAMES)
    if list(images.class_names) != numbers or names.exists():
        write_table([{"label": label, "name": name} for label, name in enumerate(images.class_names)], names)
    images.write(file)


def _stored_names(file: Path) -> list[str]:
    return [restored(row.get("name", "")) for row in csv_table(file)]
