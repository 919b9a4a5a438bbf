"""Where images are stored: a folder, a zip archive (read without unpacking), an array, or files in memory."""

import hashlib
import io
import os
import stat
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from equigrad.arrays import read_npz
from equigrad.data.images.decoding import check_file_size, opened_image, to_rgb
from equigrad.data.images.paths import inside, linked_inside
from equigrad.errors import reason


class ImageStore(Protocol):
    """Images that are read by path; errors name the file."""

    root: Path

    def read(self, path: str, min_side: int | None = None, stated: tuple[int, int] | None = None) -> Image.Image:
        """Decode an image to RGB, turned upright; FileNotFoundError or OSError names the file.

        A JPEG file may come at a half, a quarter or an eighth of its size, if both sides keep `min_side` pixels.
        `stated` is the height and width in the annotations; see `equigrad.data.images.decoding.rotation`.
        """
        ...

    def content(self, path: str) -> bytes:
        """The stored bytes, to find copies."""
        ...

    def size(self, path: str) -> int | None:
        """Number of stored bytes, or None if there is no such image; the image is not read."""
        ...

    def name(self, path: str) -> str:
        """The name of an image in messages."""
        ...

    def fingerprint(self) -> str:
        """A text that differs between stores and changes with a store, except for changes that `version` shows."""
        ...

    def version(self, path: str) -> str:
        """A text that differs after an image was replaced; empty where the fingerprint does."""
        ...


def open_store(root: str | os.PathLike[str]) -> ImageStore:
    """Open a folder, a `.zip` file, a folder in one (`images.zip/train`), or a `.npz` file with `images`."""
    root = Path(root)
    if root.is_dir():
        return FolderStore(root)
    if (parts := zip_parts(root)) is not None:
        store = ZipStore(*parts)
        if parts[1] and not store.paths():
            raise FileNotFoundError(f"{root}: no such folder in the archive; {_top_folders(ZipStore(parts[0]))}")
        return store
    if not root.is_file():
        raise FileNotFoundError(f"{root}: no such folder or file of images")
    if root.suffix == ".npz":
        return ArrayStore(read_npz(root, ["images"])["images"], root)
    raise ValueError(f"{root}: images must be a folder, a .zip or a .npz file")


def zip_parts(path: Path) -> tuple[Path, str] | None:
    """The archive and the folder in it that a path such as `images.zip/train` names; None if it names no archive."""
    for file in (path, *path.parents):
        if file.suffix == ".zip" and file.is_file():
            return file, "/".join(path.parts[len(file.parts) :])
    return None


def store_exists(root: Path) -> bool:
    """Whether there is such a folder, file or archive; for a folder in an archive, whether there is the archive."""
    return root.exists() or zip_parts(root) is not None


def check_exists(path: Path, expected: str) -> None:
    """FileNotFoundError if there is no such folder, file or archive."""
    if not store_exists(path):
        raise FileNotFoundError(f"{path}: no such {expected}")


def check_source(path: Path, setting: str) -> None:
    """The same, with the setting that names another."""
    held_out = "; without a test set, --set data.test=none holds a part of the training set out"
    check_exists(path, f"file or folder; name yours with --set {setting}=…{held_out if setting == 'data.test' else ''}")


def _top_folders(store: "ZipStore") -> str:
    found = sorted({path.partition("/")[0] for path in store.paths() if "/" in path})
    if not found:
        return "it has no folders"
    return f"it has {', '.join(found[:5])}{', …' if len(found) > 5 else ''}"


class FolderStore:
    """Image files below a folder.

    Args:
        root: what paths are relative to.
        within: folders in which the files must lie, symbolic links followed; without any, the root.
    """

    def __init__(self, root: Path, within: Sequence[Path] = ()) -> None:
        self.root = root
        self.within = tuple(within) or (root,)

    def read(self, path: str, min_side: int | None = None, stated: tuple[int, int] | None = None) -> Image.Image:
        """Decode an image to RGB; FileNotFoundError or OSError names it."""
        return read_image(self.file(path), min_side, stated)

    def content(self, path: str) -> bytes:
        """The bytes of the image file."""
        file = self.file(path)
        _check_size(self.name(path), _file_size(file))
        return file.read_bytes()

    def size(self, path: str) -> int | None:
        """File size in bytes, or None if there is no such file."""
        return _file_size(self.root / path)

    def file(self, path: str) -> Path:
        """The file of an image; OSError if a symbolic link leads out of the folder."""
        return linked_inside(self.root / path, *self.within)

    def name(self, path: str) -> str:
        """The path of the file, root included."""
        return str(self.root / path)

    def fingerprint(self) -> str:
        """The absolute path of the folder."""
        return str(self.root.resolve())

    def version(self, path: str) -> str:
        """Size and modification time of the file; empty if there is none."""
        try:
            status = (self.root / path).stat()
        except OSError:
            return ""
        return f"{status.st_size} {status.st_mtime_ns}"


class ZipStore:
    """Image files in a zip archive; every process opens the archive itself.

    Args:
        file: the archive.
        folder: what paths are relative to; empty is all of the archive.
    """

    def __init__(self, file: Path, folder: str = "") -> None:
        self.file = file
        self.root = file / folder
        self._prefix = f"{folder}/" if folder else ""
        self._archive: zipfile.ZipFile | None = None
        self._process = 0

    @property
    def archive(self) -> zipfile.ZipFile:
        """The archive, opened by this process: processes that share a handle would disturb each other's position."""
        if self._archive is None or self._process != os.getpid():
            try:
                self._archive = zipfile.ZipFile(self.file)
            except Exception as error:  # zipfile raises nearly anything on damaged archives
                raise OSError(f"{self.file}: not a zip archive ({reason(error)})") from None
            self._process = os.getpid()
        return self._archive

    def paths(self) -> list[str]:
        """The files of the archive or of its folder; ValueError if the path of one leaves it."""
        return [path for path in self._entries() if path and not path.endswith("/")]

    def folders(self) -> list[str]:
        """The folders that the archive lists, which may be empty; many archives list none."""
        return [path.rstrip("/") for path in self._entries() if path.endswith("/")]

    def _entries(self) -> list[str]:
        names = (inside(path, str(self.file)) for path in self.archive.namelist() if path.startswith(self._prefix))
        return [path[len(self._prefix) :] for path in names]

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_archive": None, "_process": 0}

    def read(self, path: str, min_side: int | None = None, stated: tuple[int, int] | None = None) -> Image.Image:
        """Decode an image to RGB; FileNotFoundError or OSError names it."""
        return _decoded(io.BytesIO(self.content(path)), self.name(path), min_side, stated)

    def content(self, path: str) -> bytes:
        """The bytes of the image file."""
        # An archive of a kilobyte can hold gigabytes; zipfile gives at most as much as the archive declares.
        _check_size(self.name(path), self.size(path))
        try:
            return self.archive.read(self._prefix + path)
        except Exception as error:  # zipfile raises nearly anything on damaged archives
            raise OSError(f"{self.name(path)}: cannot read the image ({reason(error)})") from None

    def size(self, path: str) -> int | None:
        """Uncompressed size in bytes, or None if there is no such file."""
        info = self.archive.NameToInfo.get(self._prefix + path)
        return None if info is None else info.file_size

    def name(self, path: str) -> str:
        """The path of the archive followed by that in it."""
        return f"{self.root}/{path}"

    def fingerprint(self) -> str:
        """The absolute path, size and modification time of the archive."""
        status = self.file.stat()
        return f"{self.root.resolve()} {status.st_size} {status.st_mtime_ns}"

    def version(self, path: str) -> str:
        """Empty: the fingerprint changes with every image."""
        return ""


class ArrayStore:
    """Images (N, H, W, 3) of uint8 in memory; the path of an image is its index."""

    def __init__(self, images: NDArray[np.uint8], root: Path) -> None:
        if images.ndim != 4 or images.shape[3] != 3 or images.dtype != np.uint8:
            raise ValueError(f"{root}: images must be (N, H, W, 3) uint8, got {images.shape} {images.dtype}")
        self.images = images
        self.root = root

    def read(self, path: str, min_side: int | None = None, stated: tuple[int, int] | None = None) -> Image.Image:
        """Decode an image to RGB; FileNotFoundError or OSError names it."""
        if self.size(path) is None:
            raise FileNotFoundError(f"{self.name(path)}: no such image, there are {len(self.images)}")
        return Image.fromarray(self.images[int(path)])

    def content(self, path: str) -> bytes:
        """The bytes of the pixels."""
        image: NDArray[np.uint8] = self.images[int(path)]
        return image.tobytes()

    def size(self, path: str) -> int | None:
        """Bytes of an image's pixels, or None if there is no such index."""
        is_index = path.isdecimal() and len(path) < 20 and int(path) < len(self.images)
        return self.images[0].nbytes if is_index else None

    def name(self, path: str) -> str:
        """The file followed by the index in brackets."""
        return f"{self.root}[{path}]"

    def fingerprint(self) -> str:
        """The file and a digest of all pixels."""
        return f"{self.root.resolve()} {hashlib.sha256(np.ascontiguousarray(self.images).data).hexdigest()}"

    def version(self, path: str) -> str:
        """Empty: the fingerprint changes with every image."""
        return ""


class MemoryStore:
    """Encoded image files (PNG, JPEG, …) in memory, by path.

    Args:
        files: the bytes of each file.
        root: what error messages call the store.
    """

    def __init__(self, files: dict[str, bytes], root: Path) -> None:
        self.files, self.root = files, root

    def read(self, path: str, min_side: int | None = None, stated: tuple[int, int] | None = None) -> Image.Image:
        """Decode an image to RGB; FileNotFoundError or OSError names it."""
        return _decoded(io.BytesIO(self.content(path)), self.name(path), min_side, stated)

    def content(self, path: str) -> bytes:
        """The bytes of the image file."""
        if path not in self.files:
            raise FileNotFoundError(f"{self.name(path)}: no such image, there are {len(self.files)}")
        return self.files[path]

    def size(self, path: str) -> int | None:
        """File size in bytes, or None if there is no such file."""
        return len(self.files[path]) if path in self.files else None

    def name(self, path: str) -> str:
        """The root followed by the path in brackets."""
        return f"{self.root}[{path}]"

    def fingerprint(self) -> str:
        """A digest of all files."""
        return hashlib.sha256(b"".join(self.files.values())).hexdigest()

    def version(self, path: str) -> str:
        """Empty: the fingerprint changes with every image."""
        return ""


def read_image(file: Path, min_side: int | None = None, stated: tuple[int, int] | None = None) -> Image.Image:
    """Decode an image file to RGB, as `ImageStore.read`; FileNotFoundError or OSError names it."""
    _check_size(str(file), _file_size(file))
    with file.open("rb") as stream:
        return _decoded(stream, str(file), min_side, stated)


def _file_size(file: Path) -> int | None:
    """Size in bytes; None if there is no such file, or a pipe or a device, which would have no end."""
    try:
        status = file.stat()
    except (OSError, ValueError):  # ValueError: a name with a null character
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _check_size(name: str, size: int | None) -> None:
    if size is None:
        raise FileNotFoundError(f"{name}: no such image")
    try:
        check_file_size(size)
    except OSError as error:
        raise OSError(f"{name}: {error}") from None


def _decoded(stream: IO[bytes], name: str, min_side: int | None, stated: tuple[int, int] | None) -> Image.Image:
    try:
        with opened_image(stream) as image:
            if min_side is not None:
                image.draft(None, (min_side, min_side))
            return to_rgb(image, stated)
    except OSError as error:
        raise OSError(f"{name}: {error}") from None
