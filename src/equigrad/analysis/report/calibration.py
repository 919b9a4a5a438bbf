"""Calibration of each frequency group: accuracy by confidence."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from equigrad.analysis.comparison import Categories, Comparison
from equigrad.analysis.findings import run_label
from equigrad.analysis.markup import Html, table
from equigrad.analysis.report.predictions import ClassifiedImages, RunPredictions
from equigrad.analysis.rounding import percent
from equigrad.analysis.snapshots import Ints

NUM_BINS = 15  # of equal width, as in the ECE of the evaluation
_LEAST = 10  # images in a bin that is drawn


def reliability(images: ClassifiedImages, categories: Categories) -> list[list[tuple[float, float, int]]]:
    """For each group, bins of its test images: mean confidence and share of right answers in %, and their number."""
    bins, groups = _bins(images), categories.groups[images.labels]
    found = []
    for group in range(len(categories.group_names)):
        inside = ((groups == group) & (bins == number) for number in range(NUM_BINS))
        found.append([_point(images, chosen) for chosen in inside if chosen.sum() >= _LEAST])
    return found


def calibration_table(comparison: Comparison, predictions: Sequence[RunPredictions | None]) -> Html:
    """ECE of all test images and of those of each group."""
    rows = []
    for run, found in zip(comparison.runs, predictions, strict=True):
        if found is not None and found.images is not None:
            groups = comparison.categories.groups[found.images.labels]
            masks = [groups >= 0, *(groups == group for group in range(len(comparison.categories.group_names)))]
            errors = [calibration_error(found.images, mask) for mask in masks]
            rows.append([run_label(comparison, run), *map(percent, errors)])
    header = ["run", "all", *comparison.categories.group_names]
    return table("Expected calibration error (ECE) in %: lower is better", header, rows)


def calibration_error(images: ClassifiedImages, chosen: NDArray[np.bool_]) -> float:
    """ECE of some test images: the mean distance of confidence from accuracy over bins; NaN without images."""
    if not chosen.any():
        return math.nan
    gaps = images.is_right[chosen] - images.confidences[chosen]
    return float(np.abs(np.bincount(_bins(images)[chosen], gaps, minlength=NUM_BINS)).sum() / chosen.sum())


def _bins(images: ClassifiedImages) -> Ints:
    return np.clip(np.ceil(images.confidences * NUM_BINS).astype(np.int64) - 1, 0, NUM_BINS - 1)


def _point(images: ClassifiedImages, chosen: NDArray[np.bool_]) -> tuple[float, float, int]:
    confidence, right = (float(percent(values[chosen].mean())) for values in (images.confidences, images.is_right))
    return confidence, right, int(chosen.sum())
