"""Where images are stored: a folder, a zip archive (read without unpacking), an array, or files in memory."""

import hashlib
import io
import os
import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

# What Pillow and zipfile raise for damaged images.
_UNREADABLE = (OSError, EOFError, SyntaxError, ValueError, zlib.error, zipfile.BadZipFile, Image.DecompressionBombError)


class ImageStore(Protocol):
    """Images that are read by path; errors name the file."""

    root: Path

    def read(self, path: str) -> Image.Image:
        """Decode an image to RGB; FileNotFoundError or OSError names the file."""
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
        """A text that differs between stores, and after a store changed."""
        ...


def open_store(root: str | os.PathLike[str]) -> ImageStore:
    """Open a folder, a `.zip` file, or a `.npz` file with `images` (N, H, W, 3) uint8."""
    root = Path(root)
    if root.is_dir():
        return FolderStore(root)
    if not root.is_file():
        raise FileNotFoundError(f"{root}: no such folder or file of images")
    if root.suffix == ".zip":
        return ZipStore(root)
    if root.suffix == ".npz":
        return ArrayStore(read_npz(root, "images"), root)
    raise ValueError(f"{root}: images must be a folder, a .zip or a .npz file")


class FolderStore:
    """Image files below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, path: str) -> Image.Image:
        """Decode an image to RGB; FileNotFoundError or OSError names it."""
        try:
            with (self.root / path).open("rb") as stream:
                return _decoded(stream)
        except FileNotFoundError:
            raise FileNotFoundError(f"{self.name(path)}: no such image") from None
        except _UNREADABLE as error:
            raise OSError(f"{self.name(path)}: cannot read the image ({error})") from error

    def content(self, path: str) -> bytes:
        """The bytes of the image file."""
        return (self.root / path).read_bytes()

    def size(self, path: str) -> int | None:
        """File size in bytes, or None if there is no such file."""
        try:
            return (self.root / path).stat().st_size
        except OSError:
            return None

    def name(self, path: str) -> str:
        """The path of the file, root included."""
        return str(self.root / path)

    def fingerprint(self) -> str:
        """The absolute path of the folder."""
        return str(self.root.resolve())


class ZipStore:
    """Image files in a zip archive; every process opens the archive itself."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._archive: zipfile.ZipFile | None = None
        self._process = 0

    @property
    def archive(self) -> zipfile.ZipFile:
        """The archive, opened by this process: processes that share a handle would disturb each other's position."""
        if self._archive is None or self._process != os.getpid():
            try:
                self._archive = zipfile.ZipFile(self.root)
            except zipfile.BadZipFile as error:
                raise OSError(f"{self.root}: not a zip archive ({error})") from None
            self._process = os.getpid()
        return self._archive

    def __getstate__(self) -> dict[str, object]:
        return {"root": self.root, "_archive": None, "_process": 0}

    def read(self, path: str) -> Image.Image:
        """Decode an image to RGB; FileNotFoundError or OSError names it."""
        try:
            with self.archive.open(path) as stream:
                return _decoded(stream)  # type: ignore[arg-type]
        except KeyError:
            raise FileNotFoundError(f"{self.name(path)}: no such image") from None
        except _UNREADABLE as error:
            raise OSError(f"{self.name(path)}: cannot read the image ({error})") from error

    def content(self, path: str) -> bytes:
        """The bytes of the image file."""
        return self.archive.read(path)

    def size(self, path: str) -> int | None:
        """Uncompressed size in bytes, or None if there is no such file."""
        info = self.archive.NameToInfo.get(path)
        return None if info is None else info.file_size

    def name(self, path: str) -> str:
        """The path of the archive followed by that in it."""
        return f"{self.root}/{path}"

    def fingerprint(self) -> str:
        """The absolute path, size and modification time of the archive."""
        status = self.root.stat()
        return f"{self.root.resolve()} {status.st_size} {status.st_mtime_ns}"


class ArrayStore:
    """Images (N, H, W, 3) of uint8 in memory; the path of an image is its index."""

    def __init__(self, images: NDArray[np.uint8], root: Path) -> None:
        if images.ndim != 4 or images.shape[3] != 3 or images.dtype != np.uint8:
            raise ValueError(f"{root}: images must be (N, H, W, 3) uint8, got {images.shape} {images.dtype}")
        self.images = images
        self.root = root

    def read(self, path: str) -> Image.Image:
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
        return self.images[0].nbytes if path.isdecimal() and int(path) < len(self.images) else None

    def name(self, path: str) -> str:
        """The file followed by the index in brackets."""
        return f"{self.root}[{path}]"

    def fingerprint(self) -> str:
        """The file and a digest of all pixels."""
        return f"{self.root.resolve()} {hashlib.sha256(np.ascontiguousarray(self.images).data).hexdigest()}"


class MemoryStore:
    """Encoded image files (PNG, JPEG, …) in memory, by path.

    Args:
        files: the bytes of each file.
        root: what error messages call the store.
    """

    def __init__(self, files: dict[str, bytes], root: Path) -> None:
        self.files, self.root = files, root

    def read(self, path: str) -> Image.Image:
        """Decode an image to RGB; FileNotFoundError or OSError names it."""
        content = self.content(path)
        try:
            return _decoded(io.BytesIO(content))
        except _UNREADABLE as error:
            raise OSError(f"{self.name(path)}: cannot read the image ({error})") from error

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


def read_npz(file: Path, name: str) -> NDArray[np.uint8]:
    """Read one array of an `.npz` file; pickled arrays are refused."""
    try:
        with np.load(file, allow_pickle=False) as arrays:
            if name not in arrays:
                raise ValueError(f"{file}: expected an array named {name!r}, found {sorted(arrays)}")
            array: NDArray[np.uint8] = arrays[name]
            return array
    except zipfile.BadZipFile as error:
        raise ValueError(f"{file}: not an .npz file ({error})") from None


def _decoded(stream: BinaryIO) -> Image.Image:
    try:
        with Image.open(stream) as image:
            return image.convert("RGB")
    except UnidentifiedImageError:  # its message would show the stream object; the caller adds the name
        raise UnidentifiedImageError("not an image, or of a format that Pillow does not read") from None
