"""Checks of classification data before a long training: each kind of fault, how often it occurs, the first case."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from equigrad.data.findings import Finding, Severity
from equigrad.data.frequency import Counts
from equigrad.data.images.folders import empty_folders, folder_with
from equigrad.data.images.lists import ImageList
from equigrad.data.images.sizes import stored_image_size
from equigrad.data.images.stores import FolderStore, ZipStore

_SINGLE = "a single category, so there is nothing to distinguish"
_MAX_HEADERS = 50_000  # files that are opened: seconds in a folder, and an archive is read as a whole


def check_images(images: ImageList, *, decode: bool = False) -> list[Finding]:
    """Find missing files, files that are no images, labels out of range, categories without images, and repeated paths.

    Args:
        images: a training or test list.
        decode: decode every image, which finds damaged ones but takes as long as reading a whole epoch; else only the
            headers of the first 50,000 are read.
    """
    out_of_range = np.flatnonzero(images.is_out_of_range()).tolist()
    wrong = [
        f"label {images.labels[index]} of {images.paths[index]}, expected 0..{images.num_classes - 1}"
        for index in out_of_range
    ]
    present = images.labels_present
    empty = [f"{name} (label {label})" for label, name in enumerate(images.class_names) if label not in present]
    twice = [path for path, count in Counter(images.paths).items() if count > 1]
    missing = [path for path in images.paths if images.store.size(path) is None]
    cases: list[tuple[Severity, str, list[str]]] = [
        ("error", "missing files", _missing_names(images, missing)),
        ("error", "labels out of range", wrong),
        ("error", _SINGLE, _single_category(images)),
        ("warning", "folders without images, which are no categories", _empty_folders(images)),
        ("note", "categories without images", empty),
        ("note", "paths listed more than once", twice),
        ("error", "damaged images", _damaged(images, set(missing), decode=decode)),
    ]
    return [Finding.of(severity, f"{images.source}: {kind}", found) for severity, kind, found in cases if found]


def check_several_categories(images: ImageList) -> None:
    """ValueError for a training set of one category, of which a classifier is always right."""
    if found := _single_category(images):
        raise ValueError(f"{images.source}: {_SINGLE}: {found[0]}")


def check_overlap(train: ImageList, test: ImageList, *, by_content: bool = True) -> list[Finding]:
    """Find test images that are also in the training set, by path and by content (under any name)."""
    cases: dict[str, list[str]] = {}
    if train.store.fingerprint() == test.store.fingerprint():
        train_paths = set(train.paths)
        cases["test images also in training, by path"] = [path for path in test.paths if path in train_paths]
    if by_content:
        copies = _copies(train, test)
        cases["test images also in training, by content"] = [f"{found} = {original}" for found, original in copies]
    return [Finding.of("error", f"{test.source}: {kind}", found) for kind, found in cases.items() if found]


def check_classification(
    train: ImageList, test: ImageList | None = None, *, by_content: bool = True, decode: bool = False
) -> list[Finding]:
    """Run all checks on a training list and, if given, its test list."""
    findings = check_images(train, decode=decode)
    if test is not None:
        findings += check_images(test, decode=decode)
        if train.class_names != test.class_names:
            names = f"{train.num_classes} and {test.num_classes} categories"
            findings.append(Finding("error", f"{test.source}: other category names than in training", 1, names))
        findings += check_overlap(train, test, by_content=by_content)
        if not train.is_out_of_range().any() and not test.is_out_of_range().any():
            findings += check_coverage(
                test.source, train.class_names, train.category_counts, np.array(sorted(test.labels_present)), "images"
            )
    return findings


def check_coverage(source: str, names: Sequence[str], train_counts: Counts, tested: Counts, unit: str) -> list[Finding]:
    """Find categories that are trained but cannot be measured, because the test set has none of them.

    Args:
        source: the test set, for messages.
        names: C names of the categories.
        train_counts: (C,) how many images or annotations of each category are trained on.
        tested: the categories that the test set has.
        unit: what is counted.
    """
    lacking = np.setdiff1d(np.flatnonzero(train_counts), tested)
    # The rarest first: a test set without its tail shows nothing of what a long-tailed loss changes.
    rarest_first = lacking[np.argsort(train_counts[lacking], kind="stable")]
    cases = [f"{names[label]}, with {train_counts[label]:,} training {unit}" for label in rarest_first]
    kind = f"{source}: categories of training that the test set does not have, so that nothing measures them"
    return [Finding.of("warning", kind, cases)] if cases else []


def _missing_names(images: ImageList, missing: list[str]) -> list[str]:
    names = [images.store.name(path) for path in missing]
    folder = folder_with(images.store, missing) if missing else None
    if folder is not None:
        names[0] += f"; it is in the folder {folder}: give --root {images.store.name(folder)}"
    return names


def _is_folder(images: ImageList) -> bool:
    """Whether the folders of the store are the categories."""
    return Path(images.source) == images.store.root


def _single_category(images: ImageList) -> list[str]:
    if images.num_classes != 1:
        return []
    (name,) = images.class_names
    below = {path.split("/")[1] for path in images.paths if path.count("/") > 1}
    if _is_folder(images) and below:
        nearer = images.store.name(name)
        return [f"{name}; its images are in {len(below):,} folders: if these are the categories, name {nearer}"]
    return [f"{name}, with all {len(images):,} images"]


def _empty_folders(images: ImageList) -> list[str]:
    if not _is_folder(images):
        return []
    return [f"{images.store.name(name)}: put images into it or remove it" for name in empty_folders(images.store)]


def _damaged(images: ImageList, missing: Iterable[str], *, decode: bool) -> list[str]:
    if not decode and not isinstance(images.store, FolderStore | ZipStore):  # arrays have no headers
        return []
    damaged = []
    for path in list(dict.fromkeys(images.paths))[: None if decode else _MAX_HEADERS]:
        if path in missing:
            continue
        try:
            if decode:
                images.store.read(path)
            else:
                stored_image_size(images.store, path)
        except OSError as error:
            damaged.append(str(error))
    return damaged


def _copies(train: ImageList, test: ImageList) -> list[tuple[str, str]]:
    """Pairs of a test image and a training image with the same content."""
    # Only files of equal size can be equal, so most files need not be read.
    train_sizes, test_sizes = _sizes(train), _sizes(test)
    shared_sizes = set(train_sizes.values()) & set(test_sizes.values())
    originals = {_digest(train, path): path for path, size in train_sizes.items() if size in shared_sizes}
    copies = []
    for path, size in test_sizes.items():
        original = originals.get(_digest(test, path)) if size in shared_sizes else None
        if original is not None:
            copies.append((path, original))
    return copies


def _sizes(images: ImageList) -> dict[str, int]:
    """File size of every image that exists."""
    sizes = {path: images.store.size(path) for path in images.paths}
    return {path: size for path, size in sizes.items() if size is not None}


def _digest(images: ImageList, path: str) -> bytes:
    return hashlib.sha256(images.store.content(path)).digest()
