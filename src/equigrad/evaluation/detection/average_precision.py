"""Average precision from the outcomes of detections."""

import numpy as np
from numpy.typing import NDArray

from equigrad.evaluation.detection.annotations import Flags, Floats

RECALL_LEVELS: Floats = np.linspace(0, 1, 101)


def average_precision(is_true: Flags, is_counted: Flags, num_annotations: int) -> float:
    """Mean over 101 recall levels of the best precision at this recall or a higher one.

    Precision has its local maxima at true positives, so only these are considered.

    Args:
        is_true: whether a detection is a true positive, (D,), by descending score.
        is_counted: whether a detection is a true or false positive, (D,); others are ignored.
        num_annotations: number of annotations to find, at least 1.
    """
    true_positives = np.flatnonzero(is_true)
    num_true = np.arange(1, len(true_positives) + 1)
    num_counted = np.cumsum(is_counted, dtype=np.int32)[true_positives]
    # The official formula adds this epsilon.
    precision = num_true / (num_counted + np.spacing(1))
    best = np.maximum.accumulate(precision[::-1])[::-1]
    reached = np.searchsorted(num_true / num_annotations, RECALL_LEVELS)
    return float(best[reached[reached < len(best)]].sum() / len(RECALL_LEVELS))


def mean_known(values: NDArray[np.floating]) -> float:
    """Mean of the values that are not nan; nan if there are none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
