"""Folders of images in a store: which files they have, which are empty, and in which one a missing image lies."""

import glob
from collections.abc import Iterable, Sequence
from pathlib import Path

from equigrad.data.images.lists import SUFFIXES, is_hidden, is_image_path
from equigrad.data.images.stores import FolderStore, ImageStore, ZipStore, open_store, zip_parts

_DEPTH = 2  # of the folders in which missing images are looked for
_NUM_TRIED = 20  # of them: names such as 0.png are in many folders


def image_files(given: Path) -> list[Path]:
    """The file itself, or the images below a folder, sorted; ValueError if it has none."""
    if not given.is_dir():
        return [given]
    files = (path for path in given.rglob("*") if path.is_file())
    found = sorted(path for path in files if is_image_path(path.relative_to(given).as_posix()))
    if not found:
        raise ValueError(f"{given}: expected images in the folder, found none ({', '.join(SUFFIXES)})")
    return found


def archived_images(given: Path) -> tuple[ZipStore, list[str]] | None:
    """The archive and the image that a path such as `photos.zip/a.jpg` names, or the images of `photos.zip/train`.

    None if the path names no archive; ValueError or OSError if it has no such image or folder, or no images.
    """
    parts = zip_parts(given)
    if parts is None:
        return None
    archive = ZipStore(parts[0])
    if parts[1] and archive.size(parts[1]) is not None:
        return archive, [parts[1]]
    if is_image_path(parts[1]):
        raise FileNotFoundError(f"{given}: no such image in the archive")
    store = open_store(given)
    assert isinstance(store, ZipStore)
    if not (found := image_paths(store)):
        raise ValueError(f"{given}: expected images in the archive, found none ({', '.join(SUFFIXES)})")
    return store, found


def image_paths(store: ImageStore) -> list[str]:
    """The image files of a folder or archive, sorted; ValueError for a store without files."""
    if isinstance(store, ZipStore):
        files: Iterable[str] = store.paths()
    elif isinstance(store, FolderStore):
        files = (path.relative_to(store.root).as_posix() for path in store.root.rglob("*") if path.is_file())
    else:
        raise ValueError(f"{store.root}: expected a folder or a .zip file with one folder of images for each category")
    return sorted(file for file in files if is_image_path(file))


def empty_folders(store: ImageStore) -> list[str]:
    """The folders at the top of a store that have no image in them, sorted."""
    if isinstance(store, ZipStore):
        folders = {path.partition("/")[0] for path in store.folders() if not is_hidden(path)}
    elif isinstance(store, FolderStore):
        folders = {path.name for path in store.root.iterdir() if path.is_dir() and not is_hidden(path.name)}
    else:
        return []
    return sorted(folders - {path.partition("/")[0] for path in image_paths(store)})


def folder_with(store: ImageStore, paths: Sequence[str]) -> str | None:
    """The folder below the root in which images lie that are missing at the root; None if no folder has them."""
    wanted = paths[:_NUM_TRIED]
    if isinstance(store, ZipStore):
        found = [name.removesuffix(f"/{wanted[0]}") for name in store.paths() if name.endswith(f"/{wanted[0]}")]
    elif isinstance(store, FolderStore):
        patterns = (f"{'*/' * depth}{glob.escape(wanted[0])}" for depth in range(1, _DEPTH + 1))
        matches = (match.relative_to(store.root) for pattern in patterns for match in store.root.glob(pattern))
        found = [match.as_posix().removesuffix(f"/{wanted[0]}") for match in matches]
    else:
        return None
    complete = [folder for folder in found if all(store.size(f"{folder}/{path}") is not None for path in wanted)]
    return min(complete, key=lambda folder: (folder.count("/"), folder), default=None)
