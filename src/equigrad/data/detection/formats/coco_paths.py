"""Paths of images: where the image of a COCO or LVIS record is, relative to the folder of images."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from equigrad.data.detection.data import StoredNames
from equigrad.data.images.folders import folder_with
from equigrad.data.images.paths import inside
from equigrad.data.images.stores import ImageStore

# A path that starts at the root of a machine; a folder in it may be the folder of images.
# LVIS v0.5 names files as in COCO 2014; the images are those of COCO 2017, named by their number alone.
_FOREIGN = re.compile(r"^(?:[A-Za-z]:)?[/\\]+")
_NUM_TRIED = 20  # paths that are looked for, of all that a file has
_COCO_2014 = re.compile(r"^COCO_(?:train|val|test)2014_(?=\d{12}\.jpg$)")


def image_path(file_name: str | None, coco_url: str | None) -> str:
    """The path of an image, including the folder of its split if the record names one.

    LVIS v1 has no `file_name`; its `coco_url` ends in `train2017/000000000009.jpg`. COCO's `file_name` lacks the folder
    that `coco_url` has. Other data has only `file_name`.
    """
    file_name = None if file_name is None else _FOREIGN.sub("", file_name)
    if file_name is not None and "/" not in file_name:
        file_name = file_name.replace("\\", "/")  # as written on Windows
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
    """The paths as they are in a store: its root is where they start, or any of the folders in them.

    So the folder of images may be that of one split (`train2017`), and the paths may be those of another machine.
    """
    if not paths or store.size(paths[0]) is not None:
        return paths
    step = -(-len(paths) // _NUM_TRIED)
    tried = [paths[index] for index in range(0, len(paths), step)]
    counts = range(1 + max(path.count("/") for path in tried))
    existing = [sum(store.size(_dropped(path, count)) is not None for path in tried) for count in counts]
    if not any(existing):
        hint = nearby(store, paths) or f", nor others of the annotations in {store.root}; name the folder that has them"
        raise FileNotFoundError(f"{store.name(paths[0])}: no such image{hint}")
    count = existing.index(max(existing))
    if count and all("/" not in _dropped(path, count) for path in tried):
        names = without_folders(paths)
    else:
        names = tuple(_dropped(path, count) for path in paths) if count else paths
    if names is None or len(set(names)) < len(names):  # the folders tell images apart
        raise FileNotFoundError(f"{store.name(paths[0])}: no such image{nearby(store, paths)}")
    return names


def _dropped(path: str, count: int) -> str:
    """A path without its first folders."""
    return path.split("/", min(count, path.count("/")))[-1]


def nearby(store: ImageStore, paths: Sequence[str]) -> str:
    """Words on where missing images lie, if another folder of the store has them: that folder is the one to name."""
    for wanted in (paths, [PurePosixPath(path).name for path in paths]):
        if (folder := folder_with(store, wanted)) is not None:
            return f"; the images are in {store.name(folder)}, name that instead of {store.root}"
    return ""
