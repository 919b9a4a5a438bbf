"""Metrics of semantic segmentation: mIoU, mAcc and aAcc of all categories, and of head, medium and tail.

evaluator = SegmentationEvaluator(class_names, train_pixels)
for images, targets in loader:
    evaluator.add(model(images), targets)
evaluator.result()          # {"mIoU": 0.331, "mIoU1": ..., "mIoU2": ..., "mIoU3": ..., "mAcc": ..., ..., "aAcc": ...}
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from equigrad.data.frequency import checked_counts
from equigrad.evaluation.gathering import gathered_everywhere
from equigrad.evaluation.known_mean import mean_known
from equigrad.labels import IGNORE

GroupBy = Literal["count", "index"]

GROUPS = ("head", "medium", "tail")  # mIoU1, mIoU2 and mIoU3


@dataclass(frozen=True)
class SegmentationRow:
    """One category: how often it was trained on and how well it is recognised."""

    name: str
    count: int  # in training, in the unit of `category_counts`
    group: str  # head, medium or tail
    num_pixels: int  # pixels of the category in the test set
    num_predicted: int  # pixels predicted as the category
    IoU: float  # nan if the category neither occurs nor is predicted
    Acc: float  # nan if it does not occur
    most_confused_with: str  # the most frequent wrong prediction, "" if there is none


class SegmentationEvaluator:
    """Counts pixels by category and prediction; with several ranks, every rank calls `result` and gets the same.

    Metrics come from one confusion matrix of the whole set, not from a mean over images. Means leave out categories
    that are nan, as in the published code: a category that does not occur has no Acc, but its IoU is 0 if it is
    predicted anywhere.

    Args:
        class_names: C names.
        category_counts: training pixels or images of each category, (C,).
        group_by: how the three groups of equal size are made: "count" by these counts, "index" by the order of labels,
            as the paper does on ADE20K, whose categories are sorted by pixels.
    """

    def __init__(
        self, class_names: Sequence[str], category_counts: ArrayLike | Tensor, *, group_by: GroupBy = "count"
    ) -> None:
        self.class_names = tuple(class_names)
        self.num_classes = len(self.class_names)
        if isinstance(category_counts, Tensor):
            category_counts = category_counts.cpu().numpy()
        self.category_counts = checked_counts(category_counts)
        if len(self.category_counts) != self.num_classes:
            raise ValueError(f"category_counts must have {self.num_classes} entries, got {len(self.category_counts)}")
        if group_by not in get_args(GroupBy):
            raise ValueError(f'group_by must be "count" or "index", got {group_by!r}')
        # The sort is stable, so with equal counts the categories keep their order.
        by = self.category_counts if group_by == "count" else np.zeros(self.num_classes, dtype=np.int64)
        self.groups = equal_groups(by)
        self._confusion = torch.zeros(self.num_classes, self.num_classes, dtype=torch.int64)

    def add(self, predictions: Iterable[Mapping[str, Tensor]], targets: Mapping[str, Any]) -> None:
        """Add a batch: predictions `{"labels": (H, W)}`, one for each image, and `targets["labels"]`, N maps (H, W)."""
        for prediction, labels in zip(predictions, targets["labels"], strict=True):
            predicted = prediction["labels"]
            if predicted.shape != labels.shape:
                raise ValueError(f"predictions must be {tuple(labels.shape)}, got {tuple(predicted.shape)}")
            self._add_image(predicted, labels.to(predicted.device))

    def _add_image(self, predicted: Tensor, labels: Tensor) -> None:
        is_sample = labels != IGNORE
        self._check_range("labels", labels, is_sample)
        self._check_range("predictions", predicted, is_sample)
        # Ignored pixels are counted in an extra bin, which takes half the time of removing them first.
        num_pairs = self.num_classes**2
        pairs = torch.where(is_sample, labels.long() * self.num_classes + predicted, num_pairs)
        counts = torch.bincount(pairs.flatten(), minlength=num_pairs + 1)[:-1]
        # Stays on the device of the predictions: a copy from a GPU for each image would wait for it.
        self._confusion = self._confusion.to(counts.device) + counts.view_as(self._confusion)

    def _check_range(self, name: str, values: Tensor, is_sample: Tensor) -> None:
        is_wrong = is_sample & ((values < 0) | (values >= self.num_classes))
        if is_wrong.any():
            raise ValueError(f"{name} must be in 0..{self.num_classes - 1}, got {int(values[is_wrong][0])}")

    def confusion(self) -> Tensor:
        """The confusion matrix of all ranks, (C, C): true category in rows, predicted category in columns."""
        return torch.stack(gathered_everywhere(self._confusion.cpu())).sum(0)

    def result(self) -> dict[str, float]:
        """Fractions in [0, 1]: mIoU and mAcc of all categories and of the groups 1 (head) to 3 (tail), and aAcc."""
        confusion = self.confusion()
        if not confusion.any():
            raise ValueError("no result: no predictions were added")
        result = {}
        for metric, values in zip(("mIoU", "mAcc"), iou_and_accuracy(confusion), strict=True):
            result[metric] = mean_known(values)
            for number, members in enumerate(self.groups, 1):
                result[f"{metric}{number}"] = mean_known(values[members])
        return result | {"aAcc": float(confusion.trace() / confusion.sum())}

    def per_category(self) -> list[SegmentationRow]:
        """One row for each category, in the order of labels."""
        confusion = self.confusion()
        iou, accuracy = iou_and_accuracy(confusion)
        mistakes = confusion.clone().fill_diagonal_(0)
        wrong, times = mistakes.argmax(1).tolist(), mistakes.amax(1).tolist()
        group_of = {int(label): name for name, members in zip(GROUPS, self.groups, strict=True) for label in members}
        return [
            SegmentationRow(
                name,
                int(self.category_counts[label]),
                group_of[label],
                int(confusion[label].sum()),
                int(confusion[:, label].sum()),
                float(iou[label]),
                float(accuracy[label]),
                self.class_names[wrong[label]] if times[label] else "",
            )
            for label, name in enumerate(self.class_names)
        ]


def equal_groups(category_counts: ArrayLike) -> tuple[Tensor, Tensor, Tensor]:
    """Three groups of (almost) equal size by count, head first; the labels of each group are ascending."""
    order = np.argsort(-np.asarray(category_counts), kind="stable")
    head, medium, tail = (torch.as_tensor(np.sort(part)) for part in np.array_split(order, 3))
    return head, medium, tail


def iou_and_accuracy(confusion: Tensor) -> tuple[Tensor, Tensor]:
    """IoU and accuracy of each category, (C,) float64 each; the confusion matrix has true categories in rows."""
    correct = confusion.diagonal().double()
    actual, predicted = confusion.sum(1), confusion.sum(0)
    return correct / (actual + predicted - correct), correct / actual
