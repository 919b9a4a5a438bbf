"""Masks of annotations as polygons or run lengths, read from the annotation file only when they are needed.

A mask stays text in the file until then, so memory holds no coordinates and workers share the file. Everything is
checked before pycocotools sees it, because its C code does not check its input.
"""

import os
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
import pycocotools.mask as coco_mask  # type: ignore[import-untyped]
from numpy.typing import NDArray

Rle = dict[str, Any]  # {"size": [height, width], "counts": bytes}

MAX_OUTLINE = 2_000_000  # pixels along the polygons of one annotation: drawing that takes 200 MB
_MAX_GROUPS = 7  # of five bits: more than the longest run of an image has


class RunLengthMask(msgspec.Struct):
    """A mask in an annotation file: lengths of runs of 0 and 1 down the columns, a list or COCO's compressed text."""

    size: tuple[int, int]
    counts: str | list[int]


Shape = list[list[float]] | RunLengthMask


class _Annotation(msgspec.Struct):
    segmentation: Shape | None = None


class Segmentations:
    """Positions of the annotations in their file, from which masks are read on demand.

    Args:
        file: the annotation file.
        starts: first byte of every annotation, (M,).
        lengths: number of bytes, (M,); 0 for an annotation without mask.
        stamp: size and modification time of the file when it was indexed; a changed file is refused.
    """

    def __init__(
        self, file: Path, starts: NDArray[np.int64], lengths: NDArray[np.int32], stamp: tuple[int, int]
    ) -> None:
        self.file = file
        self.starts = starts
        self.lengths = lengths
        self.stamp = stamp
        self._stream: BinaryIO | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_stream": None}

    def take(self, indices: NDArray[np.int64]) -> "Segmentations":
        """The positions of the given annotations, in the given order."""
        return Segmentations(self.file, self.starts[indices], self.lengths[indices], self.stamp)

    def text(self, index: int) -> bytes:
        """The JSON text of an annotation."""
        if self._stream is None:
            self._stream = self._opened()
        # Processes share the descriptor, so the read must not depend on its position.
        return os.pread(self._stream.fileno(), int(self.lengths[index]), int(self.starts[index]))

    def shape(self, index: int) -> Shape:
        """The polygons or run lengths of an annotation; ValueError if it has none."""
        if self.lengths[index] == 0:
            raise ValueError("segmentation: the annotation has none")
        try:
            shape = msgspec.json.decode(self.text(index), type=_Annotation).segmentation
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ValueError(f"segmentation: expected polygons or run lengths ({error})") from None
        if not shape:
            raise ValueError("segmentation: expected polygons or run lengths, got an empty value")
        return shape

    def _opened(self) -> BinaryIO:
        stream = self.file.open("rb")
        status = os.fstat(stream.fileno())
        if (status.st_size, status.st_mtime_ns) != self.stamp:
            stream.close()
            raise OSError(f"{self.file}: changed since it was read; read it again")
        return stream


def shape_to_rle(shape: Shape, height: int, width: int) -> Rle:
    """Convert to compressed run lengths; ValueError if this is not a mask of an image of this size."""
    if isinstance(shape, RunLengthMask):
        return _checked_rle(shape, height, width)
    check_polygons(shape)
    parts: list[Rle] = coco_mask.frPyObjects([list(polygon) for polygon in shape], height, width)
    merged: Rle = coco_mask.merge(parts)
    return merged


def rle_to_mask(rle: Rle) -> NDArray[np.uint8]:
    """The mask (H, W) of 0 and 1."""
    height, width = rle["size"]
    return _drawn(decode_counts(rle["counts"]), 0, width, height)


def rle_to_window(rle: Rle) -> tuple[int, int, NDArray[np.uint8]]:
    """Left and top of the object's bounding box, and its pixels (h, w); what lies left and right is never drawn."""
    height = rle["size"][0]
    counts = decode_counts(rle["counts"])
    ends = counts.cumsum()
    is_object = (np.arange(len(counts)) % 2 == 1) & (counts > 0)
    if not is_object.any():
        return 0, 0, np.zeros((0, 0), np.uint8)
    objects = np.flatnonzero(is_object)
    left, right = int(ends[objects[0] - 1] // height), int((ends[objects[-1]] - 1) // height) + 1
    columns = _drawn(counts, left, right, height)
    rows = np.flatnonzero(columns.any(1))
    top, bottom = int(rows[0]), int(rows[-1]) + 1
    return left, top, columns[top:bottom]


def _drawn(counts: NDArray[np.int64], left: int, right: int, height: int) -> NDArray[np.uint8]:
    """The columns left … right - 1 of a mask, (H, right - left)."""
    ends = np.clip(counts.cumsum(), left * height, right * height)
    values = (np.arange(len(counts)) % 2).astype(np.uint8)
    pixels = np.repeat(values, np.diff(ends, prepend=left * height))
    return np.ascontiguousarray(pixels.reshape(right - left, height).T)


def check_polygons(polygons: list[list[float]]) -> None:
    """Raise ValueError unless every polygon has three or more corners and the outline is short enough to draw."""
    length = 0.0
    for polygon in polygons:
        # With four numbers pycocotools would draw a box.
        if len(polygon) < 6 or len(polygon) % 2:
            raise ValueError(f"segmentation: expected polygons of 6, 8, ... numbers, got {len(polygon)}")
        low, high = min(polygon), max(polygon)
        length += (high - low) * len(polygon)  # an upper bound; only a large one needs the exact length
        if length > MAX_OUTLINE or max(-low, high) > MAX_OUTLINE:
            length = sum(map(_outline, polygons))
            if not length <= MAX_OUTLINE or max(-low, high) > MAX_OUTLINE:
                raise ValueError(f"segmentation: polygons too large to draw, their outline has {length:.3g} pixels")


def _outline(polygon: list[float]) -> float:
    """Length of the outline in pixels, as the sum of the longer axis of each edge."""
    corners = np.array(polygon[: len(polygon) // 2 * 2], float).reshape(-1, 2)
    with np.errstate(over="ignore"):  # an outline without end is refused by its infinite length
        return float(np.abs(corners - np.roll(corners, 1, axis=0)).max(axis=1, initial=0).sum())


def decode_counts(text: bytes) -> NDArray[np.int64]:
    """Decode compressed run lengths; ValueError if the text is malformed.

    A number is written in groups of five bits, the lowest first; 32 marks a group that another one follows, 16 in the
    last group a negative number. From the fourth number on, each is the difference to the one before last.
    """
    groups = np.frombuffer(text, np.uint8).astype(np.int64) - 48
    if len(groups) == 0 or groups.min() < 0 or groups.max() > 63 or groups[-1] & 32:
        raise ValueError("segmentation: counts are not run lengths, or they are cut off")
    last = np.flatnonzero((groups & 32) == 0)
    first = np.concatenate([[0], last[:-1] + 1])
    widths = last - first + 1
    if widths.max() > _MAX_GROUPS:
        raise ValueError("segmentation: counts have a run that is too long for any image")
    places = np.arange(len(groups)) - np.repeat(first, widths)
    runs = np.add.reduceat((groups & 31) << (5 * places), first)
    runs -= np.where(groups[last] & 16, np.int64(1) << (5 * widths), 0)
    runs[1::2] = np.cumsum(runs[1::2])
    runs[2::2] = np.cumsum(runs[2::2])
    return runs


def _checked_rle(shape: RunLengthMask, height: int, width: int) -> Rle:
    if shape.size != (height, width):
        raise ValueError(f"segmentation: size: expected that of the image, {[height, width]}, got {list(shape.size)}")
    plain = isinstance(shape.counts, list)
    counts = _plain_counts(shape.counts) if isinstance(shape.counts, list) else decode_counts(shape.counts.encode())
    if counts.min() < 0 or counts.sum() != height * width:
        raise ValueError(f"segmentation: counts: expected runs that cover {height * width} pixels, got {counts.sum()}")
    if not plain:
        return {"size": [height, width], "counts": str(shape.counts).encode()}
    packed: Rle = coco_mask.frPyObjects({"size": [height, width], "counts": counts.tolist()}, height, width)
    return packed


def _plain_counts(counts: list[int]) -> NDArray[np.int64]:
    if not counts or min(counts) < 0 or max(counts) >= 2**32:
        raise ValueError("segmentation: counts: expected one or more numbers from 0")
    return np.array(counts, dtype=np.int64)
