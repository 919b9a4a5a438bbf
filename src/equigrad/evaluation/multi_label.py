"""Metrics of images with several categories each: average precision of each category, and its mean over groups.

evaluator = MultiLabelEvaluator(train_counts, class_names)
for images, targets in loader:
    evaluator.add(model(images), targets)
evaluator.result()          # {"mAP": 0.514, "Many": ..., "Medium": ..., "Few": ..., "F1": ...}
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from equigrad.data.frequency import shot_split
from equigrad.evaluation.classification import Convention
from equigrad.evaluation.gathering import gathered_everywhere
from equigrad.evaluation.known_mean import mean_known

THRESHOLD = 0.5
"""Score from which a category counts as found, in F1 and in predictions."""


@dataclass(frozen=True)
class MultiLabelRow:
    """One category: how many training images show it, and how well it is found."""

    name: str
    count: int  # training images
    group: str  # Many, Medium or Few
    num_test: int  # test images that show it
    AP: float  # nan without any
    precision: float  # at the threshold; nan if it is never found
    recall: float


class MultiLabelEvaluator:
    """Collects scores and computes the metrics; with several ranks, every rank calls `result` and gets the same.

    The figure of a group is the mean over its categories that some test image shows.

    Args:
        category_counts: training images that show each category, (C,).
        class_names: C names.
        convention: limits of the groups; see `equigrad.evaluation.classification`.
    """

    def __init__(
        self, category_counts: ArrayLike, class_names: Sequence[str], *, convention: Convention = "code"
    ) -> None:
        self.category_counts = np.asarray(category_counts, dtype=np.int64)
        if len(class_names) != len(self.category_counts):
            raise ValueError(f"class_names must have {len(self.category_counts)} entries, got {len(class_names)}")
        self.class_names = tuple(class_names)
        self.groups = {name.capitalize(): members for name, members in shot_split(category_counts, convention).items()}
        self._batches: list[tuple[NDArray[np.float32], NDArray[np.bool_]]] = []

    def add(self, predictions: Sequence[Mapping[str, Tensor]], targets: Mapping[str, Any]) -> None:
        """Add a batch: for each image a prediction `{"scores": (C,)}`, and `targets["labels"]` (N, C) of 0 and 1."""
        labels = torch.as_tensor(targets["labels"]).cpu().numpy()
        shape = (len(predictions), len(self.class_names))
        if labels.shape != shape:
            raise ValueError(f"labels must be {shape}, got {labels.shape}")
        if predictions:
            scores = torch.stack([prediction["scores"] for prediction in predictions]).float().cpu().numpy()
            self._batches.append((scores, labels > 0))

    def result(self) -> dict[str, float]:
        """The metrics as fractions in [0, 1]; nan for a group without categories."""
        scores, labels = self._all()
        precisions = self._average_precisions(scores, labels)
        found = scores >= THRESHOLD
        return {
            "mAP": mean_known(precisions),
            **{name: mean_known(precisions[members]) for name, members in self.groups.items()},
            "F1": _ratio(2 * (found & labels).sum(), found.sum() + labels.sum()),
        }

    def per_category(self) -> list[MultiLabelRow]:
        """One row for each category, in the order of labels."""
        scores, labels = self._all()
        precisions, found = self._average_precisions(scores, labels), scores >= THRESHOLD
        correct = (found & labels).sum(0)
        group_of = {int(label): name for name, members in self.groups.items() for label in members}
        return [
            MultiLabelRow(
                name,
                int(self.category_counts[label]),
                group_of[label],
                int(labels[:, label].sum()),
                float(precisions[label]),
                _ratio(correct[label], found[:, label].sum()),
                _ratio(correct[label], labels[:, label].sum()),
            )
            for label, name in enumerate(self.class_names)
        ]

    def _all(self) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Scores and labels of all ranks, (N, C) each, the same on every rank."""
        batches = [batch for own in gathered_everywhere(self._batches) for batch in own]
        if not batches:
            raise ValueError("no result: no predictions were added")
        return np.concatenate([each for each, _ in batches]), np.concatenate([each for _, each in batches])

    def _average_precisions(self, scores: NDArray[np.float32], labels: NDArray[np.bool_]) -> NDArray[np.float64]:
        columns = zip(scores.T, labels.T, strict=True)
        return np.array([average_precision(column, is_shown) for column, is_shown in columns])


def average_precision(scores: NDArray[np.float32], is_positive: NDArray[np.bool_]) -> float:
    r"""$\sum_k (R_k - R_{k-1}) P_k$ over the scores as thresholds, equal scores at once; nan without positives.

    Args:
        scores: (N,).
        is_positive: (N,).
    """
    num_positive = int(is_positive.sum())
    if num_positive == 0:
        return math.nan
    order = np.argsort(-scores, kind="stable")
    is_last = np.append(np.diff(scores[order]) != 0, True)  # of the images with one score
    num_correct = is_positive[order].cumsum()[is_last]
    precision = num_correct / (np.flatnonzero(is_last) + 1)
    return float((np.diff(num_correct, prepend=0) * precision).sum() / num_positive)


def _ratio(part: Any, whole: Any) -> float:
    return float(part) / float(whole) if whole else math.nan
