"""Counting the pixels of each category in every image: one pass over the label maps, with an optional cache file."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from equigrad.arrays import read_npz
from equigrad.data.frequency import Counts
from equigrad.data.segmentation.data import SegmentationData
from equigrad.files import atomic_write
from equigrad.labels import IGNORE

Progress = Callable[[int, int], None]  # called with the number of label maps read, and of all


@dataclass(frozen=True, eq=False)
class CategoryPixels:
    """Number of pixels of each category in each image."""

    pixels: NDArray[np.int64]  # (N, C)
    ignored: Counts  # (N,) ignored pixels of each image

    @property
    def presence(self) -> NDArray[np.bool_]:
        """Which categories are in which images, (N, C) bool."""
        present: NDArray[np.bool_] = self.pixels > 0
        return present

    @property
    def pixel_counts(self) -> Counts:
        """Number of pixels of each category, (C,)."""
        counts: Counts = self.pixels.sum(0)
        return counts

    @property
    def image_counts(self) -> Counts:
        """Number of images that contain each category, (C,)."""
        counts: Counts = self.presence.sum(0)
        return counts


class LabelReading(NamedTuple):
    """The pixel counts of one label map, or why it cannot be used."""

    pixels: NDArray[np.int64]  # (C + 1,): the last counts ignored pixels
    size: tuple[int, int]  # height, width
    fault: str  # empty if there is none


def count_pixels(
    data: SegmentationData,
    *,
    cache: Path | None = None,
    num_workers: int = 0,
    progress: Progress | None = None,
) -> CategoryPixels:
    """Count the pixels of all label maps; ValueError names the first that cannot be used.

    Args:
        data: images and label maps.
        cache: `.npz` file; the counts are read from it if it belongs to the same data, else written to it.
        num_workers: number of processes that read; 0 reads in this process.
        progress: called after each label map.
    """
    if cache is not None and (found := _read_cache(cache, data)) is not None:
        return found
    readings = scan_label_maps(data, num_workers=num_workers, progress=progress)
    wrong = [reading.fault for reading in readings if reading.fault]
    if wrong:
        more = f" (and {len(wrong) - 1:,} more label maps cannot be used)" if len(wrong) > 1 else ""
        raise ValueError(f"{wrong[0]}{more}")
    pixels = np.array([reading.pixels for reading in readings]).reshape(len(data), data.num_classes + 1)
    counted = CategoryPixels(pixels[:, :-1], pixels[:, -1])
    if cache is not None:
        _write_cache(cache, data, counted)
    return counted


def scan_label_maps(
    data: SegmentationData, *, num_workers: int = 0, progress: Progress | None = None
) -> list[LabelReading]:
    """Pixel counts or fault of every label map, in order."""
    loader: DataLoader[LabelReading] = DataLoader(
        _LabelMaps(data), batch_size=None, collate_fn=_unchanged, num_workers=num_workers
    )
    readings = []
    for reading in loader:
        readings.append(reading)
        if progress is not None:
            progress(len(readings), len(data))
    return readings


def show_progress(done: int, total: int) -> None:
    """Print progress to stderr: about a hundred times in a terminal, else only at the end."""
    if done == total or (sys.stderr.isatty() and done % max(total // 100, 1) == 0):
        print(f"\r{done:,} of {total:,} label maps", end="\n" if done == total else "", file=sys.stderr, flush=True)


class _LabelMaps(Dataset[LabelReading]):
    """Returns faults instead of raising them: an error of a worker would arrive with a traceback in its message."""

    def __init__(self, data: SegmentationData) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> LabelReading:
        try:
            labels = self.data.read_labels(index)
        except (ValueError, OSError) as error:
            return LabelReading(np.zeros(self.data.num_classes + 1, dtype=np.int64), (0, 0), str(error))
        categories = np.where(labels == IGNORE, self.data.num_classes, labels).ravel()
        size = (labels.shape[0], labels.shape[1])
        return LabelReading(np.bincount(categories, minlength=self.data.num_classes + 1), size, "")


def _unchanged(reading: Any) -> Any:
    return reading


def _read_cache(cache: Path, data: SegmentationData) -> CategoryPixels | None:
    """The cached counts, or None if the file is missing, damaged, or belongs to other data."""
    try:
        arrays = read_npz(cache, ["fingerprint", "pixels", "ignored"])
    except ValueError:
        return None
    if str(arrays["fingerprint"]) != data.fingerprint():
        return None
    return CategoryPixels(arrays["pixels"], arrays["ignored"])


def _write_cache(cache: Path, data: SegmentationData, counted: CategoryPixels) -> None:
    cache.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(cache) as stream:
        np.savez_compressed(
            stream, pixels=counted.pixels, ignored=counted.ignored, fingerprint=np.array(data.fingerprint())
        )
