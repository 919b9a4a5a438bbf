"""Paths of images: where the image of a COCO or LVIS record is, relative to the folder of images."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from equigrad.data.detection.data import StoredNames
from equigrad.data.images.folders import folder_with
from equigrad.data.images.paths import inside
from equigrad.data.images.stores import ImageStore

# LVIS v0.5 names files as in COCO 2014; the images are those of COCO 2017, named by their number alone.
_COCO_2014 = re.compile(r"^COCO_(?:train|val|test)2014_(?=\d{12}\.jpg$)")


def image_path(file_name: str | None, coco_url: str | None) -> str:
    """The path of an image, including the folder of its split if the record names one.

    LVIS v1 has no `file_name`; its `coco_url` ends in `train2017/000000000009.jpg`. COCO's `file_name` lacks the folder
    that `coco_url` has. Other data has only `file_name`.
    """
    url_path = coco_url.partition("://")[2].partition("/")[2] if coco_url else ""
    from_url = "/".join(url_path.split("/")[-2:])
    if not file_name:
        if not from_url:
            raise ValueError("file_name: expected a path here or in coco_url, got neither")
        return inside(from_url, "coco_url")
    same_file = from_url.rpartition("/")[2] in (file_name, _COCO_2014.sub("", file_name))
    return inside(from_url if same_file else file_name, "file_name")


def without_folders(paths: Sequence[str]) -> Sequence[str] | None:
    """The file names without folders; None if two images have the same name."""
    if isinstance(paths, StoredNames):  # those of an index, by the hundred thousand at every start
        stored = paths.without_folders()
        return stored if stored.are_distinct() else None
    names = tuple(path.rstrip("/").rpartition("/")[2] for path in paths)  # ten times as fast as PurePosixPath
    return names if len(set(names)) == len(names) else None


def existing_paths(store: ImageStore, paths: Sequence[str]) -> Sequence[str]:
    """The paths in a store whose root is either the folder that holds the splits or the folder of one split."""
    if not paths or store.size(paths[0]) is not None:
        return paths
    names = without_folders(paths)
    if names is None or store.size(names[0]) is None:
        raise FileNotFoundError(f"{store.name(paths[0])}: no such image{nearby(store, paths)}")
    return names


def nearby(store: ImageStore, paths: Sequence[str]) -> str:
    """Words on where missing images lie, if another folder of the store has them: that folder is the one to name."""
    for wanted in (paths, [PurePosixPath(path).name for path in paths]):
        if (folder := folder_with(store, wanted)) is not None:
            return f"; the images are in {store.name(folder)}, name that instead of {store.root}"
    return ""
