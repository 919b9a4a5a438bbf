"""How many pixels of each category every image has: one pass over the label maps, kept in a file if one is named."""

import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from equigrad.data.frequency import Counts
from equigrad.data.segmentation.data import SegmentationData
from equigrad.files import atomic_write
from equigrad.labels import IGNORE

Progress = Callable[[int, int], None]  # called with how many label maps are done, and of how many


@dataclass(frozen=True, eq=False)
class CategoryPixels:
    """Pixels by image and category."""

    pixels: NDArray[np.int64]  # (N, C)
    ignored: Counts  # (N,)

    @property
    def presence(self) -> NDArray[np.bool_]:
        """Which categories are in which images, (N, C)."""
        present: NDArray[np.bool_] = self.pixels > 0
        return present

    @property
    def pixel_counts(self) -> Counts:
        """Pixels of each category, (C,)."""
        counts: Counts = self.pixels.sum(0)
        return counts

    @property
    def image_counts(self) -> Counts:
        """Images that contain each category, (C,)."""
        counts: Counts = self.presence.sum(0)
        return counts


class LabelReading(NamedTuple):
    """Pixels of one label map, or why there are none."""

    pixels: NDArray[np.int64]  # (C + 1,): the last counts ignored pixels
    size: tuple[int, int]  # height, width
    fault: str


def count_pixels(
    data: SegmentationData,
    *,
    cache: Path | None = None,
    num_workers: int = 0,
    progress: Progress | None = None,
) -> CategoryPixels:
    """Read all label maps; ValueError names the first that is wrong.

    Args:
        data: images and label maps.
        cache: `.npz` file to read the counts from if it is that of the same data, else to write them to.
        num_workers: processes that read; 0 reads in this one.
        progress: called after each label map.
    """
    if cache is not None and (found := _read_cache(cache, data)) is not None:
        return found
    readings = scan_label_maps(data, num_workers=num_workers, progress=progress)
    wrong = [reading.fault for reading in readings if reading.fault]
    if wrong:
        more = f" (and {len(wrong) - 1:,} more label maps are wrong)" if len(wrong) > 1 else ""
        raise ValueError(f"{wrong[0]}{more}")
    pixels = np.array([reading.pixels for reading in readings]).reshape(len(data), data.num_classes + 1)
    counted = CategoryPixels(pixels[:, :-1], pixels[:, -1])
    if cache is not None:
        _write_cache(cache, data, counted)
    return counted


def scan_label_maps(
    data: SegmentationData, *, num_workers: int = 0, progress: Progress | None = None
) -> list[LabelReading]:
    """Pixels or fault of every label map, in order."""
    loader: DataLoader[LabelReading] = DataLoader(
        _LabelMaps(data), batch_size=None, collate_fn=_as_it_is, num_workers=num_workers
    )
    readings = []
    for reading in loader:
        readings.append(reading)
        if progress is not None:
            progress(len(readings), len(data))
    return readings


def show_progress(done: int, total: int) -> None:
    """Say on stderr how far reading has come: in a terminal a hundred times, elsewhere at the end."""
    if done == total or (sys.stderr.isatty() and done % max(total // 100, 1) == 0):
        print(f"\r{done:,} of {total:,} label maps", end="\n" if done == total else "", file=sys.stderr, flush=True)


class _LabelMaps(Dataset[LabelReading]):
    """Faults are returned: an error raised in a worker would arrive with the worker's traceback in its message."""

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


def _as_it_is(reading: Any) -> Any:
    return reading


def _read_cache(cache: Path, data: SegmentationData) -> CategoryPixels | None:
    """What the file holds, or None if it is not there, damaged, or of other data."""
    try:
        with np.load(cache, allow_pickle=False) as arrays:
            if str(arrays["fingerprint"]) != data.fingerprint():
                return None
            return CategoryPixels(arrays["pixels"], arrays["ignored"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _write_cache(cache: Path, data: SegmentationData, counted: CategoryPixels) -> None:
    cache.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(cache) as stream:
        np.savez_compressed(
            stream, pixels=counted.pixels, ignored=counted.ignored, fingerprint=np.array(data.fingerprint())
        )
