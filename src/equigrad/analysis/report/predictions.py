"""Predictions of a run on its test set, from `predictions/test.npz`: confusions of categories, and confidence."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equigrad.analysis.comparison import Categories
from equigrad.analysis.snapshots import Floats, Ints
from equigrad.arrays import read_npz
from equigrad.run_files import TEST_PREDICTIONS


@dataclass(frozen=True, eq=False)
class ClassifiedImages:
    """How sure a classifier was of each of N test images."""

    labels: Ints  # (N,) true category
    confidences: Floats  # (N,) score of the predicted category
    is_right: NDArray[np.bool_]  # (N,)


@dataclass(frozen=True, eq=False)
class RunPredictions:
    """Test samples (images, or pixels of a segmenter) by what they are and what the run said.

    Categories are numbered in the common order of a comparison. P pairs of a true and a predicted category occur.
    """

    true: Ints  # (P,)
    said: Ints  # (P,)
    count: Ints  # (P,) samples
    images: ClassifiedImages | None = None  # None for pixels

    def totals(self, num_classes: int) -> Ints:
        """(C,) test samples of each category."""
        return np.bincount(self.true, self.count, minlength=num_classes).astype(np.int64)

    def right(self, num_classes: int) -> Ints:
        """(C,) those recognised."""
        own = self.true == self.said
        return np.bincount(self.true[own], self.count[own], minlength=num_classes).astype(np.int64)

    def takers(self, category: int, limit: int) -> list[tuple[int, int]]:
        """The categories that most samples of this one were taken for, with their numbers."""
        wrong = np.flatnonzero((self.true == category) & (self.said != category))
        most = wrong[np.argsort(-self.count[wrong], kind="stable")][:limit]
        return list(zip(self.said[most].tolist(), self.count[most].tolist(), strict=True))

    def group_shares(self, categories: Categories) -> Floats:
        """(G, G + 1) of a group's samples, the share recognised and the shares that each group takes wrongly.

        Means over the categories that have test samples, as in the metrics of groups.
        """
        size, groups = len(categories), categories.groups
        totals = self.totals(size)
        column = np.where(self.true == self.said, 0, 1 + groups[self.said])
        shares = np.zeros((size, len(categories.group_names) + 1))
        np.add.at(shares, (self.true, column), self.count / np.maximum(totals[self.true], 1))
        members = [(groups == group) & (totals > 0) for group in range(len(categories.group_names))]
        return np.stack([shares[mask].mean(0) if mask.any() else np.full(shares.shape[1], np.nan) for mask in members])


def read_test_predictions(folder: Path, categories: Categories) -> RunPredictions | None:
    """Those of a classifier or segmenter; None for other runs.

    Raises:
        ValueError: one line that names the file and what is wrong with it.
    """
    file = folder / TEST_PREDICTIONS
    if not file.is_file():
        return None
    arrays = read_npz(file)
    position = np.empty(len(categories), dtype=np.int64)
    position[categories.labels] = np.arange(len(categories))
    try:
        if "confusion" in arrays:
            return _of_pixels(arrays["confusion"], position)
        if not {"labels", "top", "scores"} <= arrays.keys() or arrays["labels"].ndim > 1:  # several labels an image
            return None
        return _of_images(arrays, position)
    except (IndexError, TypeError, ValueError):
        raise ValueError(
            f"{file}: expected labels, top and scores of {len(categories)} categories, or confusion"
        ) from None


def _of_pixels(confusion: NDArray[Any], position: Ints) -> RunPredictions:
    if confusion.shape != (len(position),) * 2 or confusion.dtype.kind not in "iu" or (confusion < 0).any():
        raise ValueError
    true, said = np.nonzero(confusion)
    return RunPredictions(position[true], position[said], confusion[true, said].astype(np.int64))


def _of_images(arrays: dict[str, NDArray[Any]], position: Ints) -> RunPredictions:
    labels, best, confidences = arrays["labels"], arrays["top"][:, 0], arrays["scores"][:, 0].astype(np.float64)
    both = np.concatenate([labels, best])
    if (
        not len(labels) == len(best) == len(confidences)
        or both.dtype.kind not in "iu"
        or not np.isfinite(confidences).all()
    ):
        raise ValueError
    if len(both) and (both.min() < 0 or both.max() >= len(position)):
        raise ValueError
    true, said = position[labels], position[best]
    pairs, count = np.unique(true * len(position) + said, return_counts=True)
    images = ClassifiedImages(true, confidences.clip(0, 1), true == said)
    return RunPredictions(pairs // len(position), pairs % len(position), count, images)
