"""From the outcomes of detections to average precision and recall."""

import numpy as np
from numpy.typing import NDArray

from equigrad.evaluation.detection.annotations import Flags, Floats

RECALL_LEVELS: Floats = np.linspace(0, 1, 101)


def average_precision(is_true: Flags, is_counted: Flags, num_annotations: int) -> float:
    """Mean over 101 levels of recall of the best precision at that recall or a higher one.

    Precision is highest where a detection is true, so only those are looked at.

    Args:
        is_true: (D,) detections by falling score that found an annotation.
        is_counted: (D,) those that are true or false, and not to be ignored.
        num_annotations: to be found, at least 1.
    """
    places = np.flatnonzero(is_true)
    num_true = np.arange(1, len(places) + 1)
    num_counted = np.cumsum(is_counted, dtype=np.int32)[places]
    # The tiny number is part of the official formula.
    precision = num_true / (num_counted + np.spacing(1))
    best = np.maximum.accumulate(precision[::-1])[::-1]
    reached = np.searchsorted(num_true / num_annotations, RECALL_LEVELS)
    return float(best[reached[reached < len(best)]].sum() / len(RECALL_LEVELS))


def mean_known(values: NDArray[np.floating]) -> float:
    """Mean of what is not nan; nan if nothing is."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
