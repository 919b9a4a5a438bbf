"""Writing detections to disk during inference, in shards that appear complete or not at all.

A shard is an `.npz` file. It takes 24 bytes for each detection, where JSON takes 155, and is written 100 times and read
15 times as fast. It also lists the images without detections, so that an interrupted evaluation can continue.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equigrad.arrays import read_npz
from equigrad.evaluation.detection.annotations import Annotations, Flags
from equigrad.evaluation.detection.packed_masks import PackedMasks, are_valid
from equigrad.evaluation.detection.predictions import Predictions
from equigrad.files import atomic_write, remove_temporary_files
from equigrad.record_ids import Ids, IdTable, id_column

DETECTIONS_PER_SHARD = 200_000


class PredictionWriter:
    """Collects detections and writes a shard whenever there are enough; `close` writes the rest.

    Args:
        folder: created if needed; existing shards are kept.
        rank: rank of this process; each rank writes its own shards.
        detections_per_shard: largest number of detections in memory.
    """

    def __init__(
        self, folder: str | os.PathLike[str], rank: int = 0, *, detections_per_shard: int = DETECTIONS_PER_SHARD
    ) -> None:
        self.folder, self.rank, self.detections_per_shard = Path(folder), rank, detections_per_shard
        self.folder.mkdir(parents=True, exist_ok=True)
        self._number = len(self.shards())
        self._images: list[int | str] = []
        self._columns: list[tuple[NDArray[Any], ...]] = []
        self._counts: list[bytes] | None = None
        self._num_pending = 0

    def shards(self) -> list[Path]:
        """The files that this rank has written."""
        return _shards(self.folder, self.rank)

    def add(
        self,
        image_id: int | str,
        category_ids: ArrayLike,
        boxes: ArrayLike,
        scores: ArrayLike,
        masks: Sequence[bytes] | None = None,
    ) -> None:
        """Add all detections of an image.

        Args:
            image_id: id of the image in the annotation file.
            category_ids: (K,) ids in the annotation file.
            boxes: (K, 4) x, y, width, height.
            scores: (K,).
            masks: K masks as compressed run lengths; for all images or for none.
        """
        columns = (np.asarray(category_ids), np.asarray(boxes, np.float32), np.asarray(scores, np.float32))
        num = len(columns[0])
        if columns[1].shape != (num, 4) or columns[2].shape != (num,) or (masks is not None and len(masks) != num):
            raise ValueError(f"boxes, scores and masks must have {num} entries, as many as category_ids")
        if self._images and (masks is None) != (self._counts is None):
            raise ValueError("masks must be given for all images or for none")
        self._images.append(image_id)
        self._columns.append(columns)
        if masks is not None:
            self._counts = [*(self._counts or []), *masks]
        self._num_pending += num
        if self._num_pending >= self.detections_per_shard:
            self.close()

    def close(self) -> None:
        """Write the detections that are in memory."""
        if not self._images:
            return
        category_ids, boxes, scores = (np.concatenate(column) for column in zip(*self._columns, strict=True))
        arrays = {
            "image_ids": id_column(self._images),
            "num_detections": np.array([len(columns[0]) for columns in self._columns], np.int64),
            "category_ids": category_ids if category_ids.dtype.kind == "U" else category_ids.astype(np.int32),
            "boxes": boxes,
            "scores": scores,
        }
        if self._counts is not None:
            masks = PackedMasks.of(self._counts)
            arrays |= {"mask_text": masks.text, "mask_offsets": masks.offsets}
        with atomic_write(self.folder / f"predictions-{self.rank:04d}-{self._number:05d}.npz") as stream:
            np.savez(stream, **arrays)  # type: ignore[arg-type]  # stubs want allow_pickle among the arrays
        self._number += 1
        self._images, self._columns, self._counts, self._num_pending = [], [], None, 0


def remove_shards(folder: Path) -> None:
    """Remove all shards of a folder, for a new evaluation."""
    for file in _shards(folder):
        file.unlink(missing_ok=True)  # another rank may be doing the same
    remove_temporary_files(folder)


def has_shards(folder: Path) -> bool:
    """Whether there are predictions in a folder."""
    return bool(_shards(folder))


def finished_images(folder: str | os.PathLike[str], rank: int | None = None) -> Ids:
    """Ids of the images whose detections are on disk, ascending; those of one rank, or of all."""
    parts = [read_npz(file, ["image_ids"])["image_ids"] for file in _shards(Path(folder), rank)]
    return np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.int64)


def read_shards(folder: str | os.PathLike[str], annotations: Annotations) -> Predictions:
    """Read the shards of all ranks; an image that several ranks processed counts once."""
    folder = Path(folder)
    files = _shards(folder)
    if not files:
        raise ValueError(f"{folder}: expected shards predictions-*.npz, found none")
    seen: Flags = np.zeros(len(annotations.image_ids), np.bool_)
    parts = [_read(file, annotations, seen) for file in files]
    if len({part.masks is None for part in parts if len(part)}) > 1:
        raise ValueError(f"{folder}: some shards have masks and some have none")
    return Predictions.joined(parts)


def _shards(folder: Path, rank: int | None = None) -> list[Path]:
    return sorted(folder.glob("predictions-*.npz" if rank is None else f"predictions-{rank:04d}-*.npz"))


def _read(file: Path, annotations: Annotations, seen: Flags) -> Predictions:
    """Read a shard without the images in `seen`, and add its images to `seen`."""
    content = read_npz(file)
    try:
        images = IdTable(annotations.image_ids).indices(content["image_ids"])
        labels = IdTable(annotations.categories.ids).indices(content["category_ids"])
        boxes, scores = content["boxes"].astype(np.float64), content["scores"].astype(np.float64)
        owners = np.repeat(images, content["num_detections"])
        if not (len(owners) == len(labels) == len(scores) and boxes.shape == (len(scores), 4)):
            raise ValueError("columns of one length")
        if not (np.isfinite(boxes).all() and np.isfinite(scores).all() and (boxes[:, 2:] >= 0).all()):
            raise ValueError("finite numbers and sides from 0")
        masks = _masks(content, owners, annotations)
    except (KeyError, ValueError) as error:
        raise ValueError(f"{file}: expected {error}") from None
    keep = np.flatnonzero(np.repeat(~seen[images], content["num_detections"]))
    seen[images] = True
    boxes = boxes[keep]
    masks = None if masks is None else masks.take(keep)
    return Predictions(owners[keep], labels[keep], boxes, scores[keep], boxes[:, 2] * boxes[:, 3], masks)


def _masks(content: dict[str, NDArray[Any]], images: NDArray[np.int32], annotations: Annotations) -> PackedMasks | None:
    if "mask_text" not in content:
        return None
    offsets = content["mask_offsets"]
    if len(offsets) != len(images) + 1 or offsets[0] != 0 or offsets[-1] != len(content["mask_text"]):
        raise ValueError("a mask for every detection")
    masks = PackedMasks(content["mask_text"], offsets)
    num_pixels = annotations.heights[images].astype(np.int64) * annotations.widths[images]
    if (np.diff(offsets) < 0).any() or not are_valid(masks, num_pixels).all():
        raise ValueError("run lengths that cover the image")
    return masks
