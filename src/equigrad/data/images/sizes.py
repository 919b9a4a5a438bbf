"""Height and width of images, read from the headers of their files: no pixel is decoded."""

import io
from pathlib import Path
from typing import IO

from equigrad.data.images.decoding import check_file_size, opened_image, size_of
from equigrad.data.images.stores import FolderStore, ImageStore
from equigrad.errors import reason


def image_size(file: Path | IO[bytes], stated: tuple[int, int] | None = None) -> tuple[int, int]:
    """Height and width of the upright image; OSError if it is none, or one that Pillow takes for a decompression bomb.

    Args:
        file: path or content.
        stated: height and width in its annotations; see `equigrad.data.images.decoding.rotation`.
    """
    with opened_image(file) as image:
        return size_of(image, stated)


def file_image_size(file: Path, stated: tuple[int, int] | None = None) -> tuple[int, int]:
    """Height and width of an image file; the OSError names the file."""
    try:
        check_file_size(file.stat().st_size)
        return image_size(file, stated)
    except OSError as error:
        raise OSError(f"{file}: {reason(error)}") from None


def stored_image_size(store: ImageStore, path: str, stated: tuple[int, int] | None = None) -> tuple[int, int]:
    """Height and width of an image in a store; the FileNotFoundError or OSError names the image."""
    if store.size(path) is None:
        raise FileNotFoundError(f"{store.name(path)}: no such image")
    if isinstance(store, FolderStore):  # only the header is read, not the whole file
        return file_image_size(store.file(path), stated)
    content = io.BytesIO(store.content(path))
    try:
        return image_size(content, stated)
    except OSError as error:
        raise OSError(f"{store.name(path)}: {error}") from None
