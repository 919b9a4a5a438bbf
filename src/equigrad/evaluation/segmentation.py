"""Metrics of semantic segmentation: mIoU, mAcc and aAcc over the whole set, and of head, medium and tail categories.

evaluator = SegmentationEvaluator(class_names, train_pixels)
for images, targets in loader:
    evaluator.add(model(images), targets)
evaluator.result()          # {"mIoU": 0.331, "mIoU1": ..., "mIoU2": ..., "mIoU3": ..., "mAcc": ..., ..., "aAcc": ...}
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import ArrayLike
from torch import Tensor

from equigrad.data.frequency import checked_counts
from equigrad.labels import IGNORE

GroupBy = Literal["count", "index"]

GROUPS = ("head", "medium", "tail")  # 1, 2 and 3 in the names of metrics


@dataclass(frozen=True)
class SegmentationRow:
    """One category: how often it was trained on and how well it is recognised."""

    name: str
    count: int  # in training, in the unit of `category_counts`
    group: str  # head, medium or tail
    num_pixels: int  # of it in the test set
    num_predicted: int  # pixels that were taken for it
    IoU: float  # nan if it neither occurs nor is predicted
    Acc: float  # nan if it does not occur
    most_confused_with: str  # the most frequent wrong answer, "" if there is none


class SegmentationEvaluator:
    """Counts pixels by category and prediction; on several ranks, all of them call `result` and get the same.

    One confusion matrix of the whole set, not a mean over images. Means leave out categories that are nan, as the
    published code does: a category that does not occur has no Acc, but an IoU of 0 if it is predicted anywhere.

    Args:
        class_names: C names.
        category_counts: training pixels or images of each category, (C,).
        group_by: what makes the three equal groups from head to tail: "count" by those counts, "index" the categories'
            own order, as the paper does on ADE20K, where it is that of pixels.
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
        # A stable order: equal counts everywhere leave the categories in their own.
        by = self.category_counts if group_by == "count" else np.zeros(self.num_classes, dtype=np.int64)
        self.groups = equal_groups(by)
        self._confusion = torch.zeros(self.num_classes, self.num_classes, dtype=torch.int64)

    def add(self, predictions: Iterable[Mapping[str, Tensor]], targets: Mapping[str, Any]) -> None:
        """Add predictions, one `{"labels": (H, W)}` an image, and `targets["labels"]`, (N, H, W) or N of (H, W)."""
        for prediction, labels in zip(predictions, targets["labels"], strict=True):
            predicted = prediction["labels"]
            if predicted.shape != labels.shape:
                raise ValueError(f"predictions must be {tuple(labels.shape)}, got {tuple(predicted.shape)}")
            self._add_image(predicted, labels.to(predicted.device))

    def _add_image(self, predicted: Tensor, labels: Tensor) -> None:
        is_sample = labels != IGNORE
        self._check_range("labels", labels, is_sample)
        self._check_range("predictions", predicted, is_sample)
        # Ignored pixels are counted apart: that takes half the time of leaving them out first.
        num_pairs = self.num_classes**2
        pairs = torch.where(is_sample, labels.long() * self.num_classes + predicted, num_pairs)
        counts = torch.bincount(pairs.flatten(), minlength=num_pairs + 1)[:-1]
        # Stays where predictions are made: a copy from a GPU for each image would stall it.
        self._confusion = self._confusion.to(counts.device) + counts.view_as(self._confusion)

    def _check_range(self, name: str, values: Tensor, is_sample: Tensor) -> None:
        is_wrong = is_sample & ((values < 0) | (values >= self.num_classes))
        if is_wrong.any():
            raise ValueError(f"{name} must be in 0..{self.num_classes - 1}, got {int(values[is_wrong][0])}")

    def confusion(self) -> Tensor:
        """Pixels of each category (row) by what they were taken for (column), of all ranks, (C, C)."""
        if not (dist.is_available() and dist.is_initialized()):
            return self._confusion.cpu()
        gathered: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(gathered, self._confusion.cpu())
        return torch.stack(gathered).sum(0)

    def result(self) -> dict[str, float]:
        """Fractions in [0, 1]: mIoU and mAcc, of all categories and of the groups 1 (head) to 3 (tail), and aAcc."""
        confusion = self.confusion()
        if not confusion.any():
            raise ValueError("there is no result without predictions")
        result = {}
        for metric, values in zip(("mIoU", "mAcc"), iou_and_accuracy(confusion), strict=True):
            result[metric] = _mean(values)
            result |= {f"{metric}{number}": _mean(values[members]) for number, members in enumerate(self.groups, 1)}
        return result | {"aAcc": float(confusion.trace() / confusion.sum())}

    def per_category(self) -> list[SegmentationRow]:
        """A row for every category, in the order of labels."""
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
    """Categories in three groups of equal size (within one) by count, head first; each group is in ascending order."""
    order = np.argsort(-np.asarray(category_counts), kind="stable")
    head, medium, tail = (torch.as_tensor(np.sort(part)) for part in np.array_split(order, 3))
    return head, medium, tail


def iou_and_accuracy(confusion: Tensor) -> tuple[Tensor, Tensor]:
    """IoU and accuracy of each category, (C,) float64 each, of a confusion matrix with a row for each true category."""
    right = confusion.diagonal().double()
    is_there, is_predicted = confusion.sum(1), confusion.sum(0)
    return right / (is_there + is_predicted - right), right / is_there


def _mean(values: Tensor) -> float:
    """Mean of what is there; nan without any."""
    present = values[~values.isnan()]
    return present.mean().item() if len(present) else math.nan
