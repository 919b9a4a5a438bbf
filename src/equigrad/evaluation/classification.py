"""Metrics of long-tailed classification: accuracy overall and of many-, medium- and few-shot categories, calibration.

evaluator = ClassificationEvaluator(train_counts, class_names)
for images, targets in loader:
    evaluator.add(model(images), targets)
evaluator.result()          # {"Overall": 0.514, "Many": ..., "Medium": ..., "Few": ..., ...}
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from equigrad.data.frequency import shot_split
from equigrad.evaluation.gathering import gathered_everywhere
from equigrad.evaluation.known_mean import mean_known

Convention = Literal["code", "paper"]
NUM_BINS = 15  # of the calibration error, as in Guo et al., ICML 2017


@dataclass(frozen=True)
class ClassificationRow:
    """One category: how often it was trained on and how well it is recognised."""

    name: str
    count: int  # training images
    group: str  # Many, Medium or Few
    num_test: int
    accuracy: float  # nan without test images
    most_confused_with: str  # the most frequent wrong prediction, "" if there is none
    confused: float  # share of the test images with this wrong prediction


class ClassificationEvaluator:
    """Collects predictions and computes the metrics; with several ranks, every rank calls `result` and gets the same.

    The accuracy of a group is the unweighted mean over its categories that occur in the test set, as published.

    Args:
        category_counts: training images of each category, (C,).
        class_names: C names; None takes the labels as names.
        convention: limits of the groups, in training images. "code" as in the published evaluation code: many > 100,
            medium 20..100, few < 20. "paper" as in its text: many >= 100, few <= 20.
    """

    def __init__(
        self,
        category_counts: ArrayLike | Tensor,
        class_names: Sequence[str] | None = None,
        *,
        convention: Convention = "code",
    ) -> None:
        if isinstance(category_counts, Tensor):
            category_counts = category_counts.cpu().numpy()
        groups = shot_split(category_counts, convention)
        self.category_counts = torch.as_tensor(np.asarray(category_counts), dtype=torch.int64)
        self.num_classes = len(self.category_counts)
        names = class_names if class_names is not None else [str(label) for label in range(self.num_classes)]
        if len(names) != self.num_classes:
            raise ValueError(f"class_names must have {self.num_classes} entries, got {len(names)}")
        self.class_names = tuple(names)
        self.groups = {name.capitalize(): torch.as_tensor(members) for name, members in groups.items()}
        self._batches: list[_Samples] = []

    def add(self, predictions: Sequence[Mapping[str, Tensor]], targets: Mapping[str, Any]) -> None:
        """Add a batch: for each image a prediction `{"scores": (C,)}`, and `targets["labels"]` (N,)."""
        labels = torch.as_tensor(targets["labels"]).cpu()
        if len(predictions) != len(labels):
            raise ValueError(f"predictions and labels must have one length, got {len(predictions)} and {len(labels)}")
        if not predictions:
            return
        scores = torch.stack([prediction["scores"] for prediction in predictions]).float().cpu()
        if scores.shape[1] != self.num_classes:
            raise ValueError(f"scores must be ({self.num_classes},), got ({scores.shape[1]},)")
        if int(labels.min()) < 0 or int(labels.max()) >= self.num_classes:
            raise ValueError(f"labels must be in 0..{self.num_classes - 1}, got {labels.min()}..{labels.max()}")
        self._batches.append(_Samples.of(scores, labels))

    def result(self) -> dict[str, float]:
        """The metrics as fractions in [0, 1] under the paper's names; nan for a group without categories."""
        samples = self._all()
        if len(samples) == 0:
            raise ValueError("no result: no predictions were added")
        accuracy = self._accuracies(samples)
        return {
            "Overall": samples.is_correct.double().mean().item(),
            **{name: mean_known(accuracy[members]) for name, members in self.groups.items()},
            "top5": samples.is_in_top5.double().mean().item(),
            "mean_class_accuracy": mean_known(accuracy),
            "ECE": calibration_error(samples.confidences, samples.is_correct),
        }

    def per_category(self) -> list[ClassificationRow]:
        """One row for each category, in the order of labels."""
        samples = self._all()
        accuracy, num_test = self._accuracies(samples), self._count(samples.labels)
        confusions = self._worst_confusions(samples)
        group_of = {int(label): name for name, members in self.groups.items() for label in members}
        rows = []
        for label, name in enumerate(self.class_names):
            wrong, times = confusions.get(label, (None, 0))
            rows.append(
                ClassificationRow(
                    name,
                    int(self.category_counts[label]),
                    group_of[label],
                    int(num_test[label]),
                    float(accuracy[label]),
                    "" if wrong is None else self.class_names[wrong],
                    times / max(int(num_test[label]), 1),
                )
            )
        return rows

    def _all(self) -> "_Samples":
        """The predictions of all ranks, the same on each."""
        return _Samples.joined(gathered_everywhere(_Samples.joined(self._batches)))

    def _count(self, labels: Tensor) -> Tensor:
        return torch.bincount(labels, minlength=self.num_classes)

    def _accuracies(self, samples: "_Samples") -> Tensor:
        """Accuracy of each category, (C,); nan without test images."""
        return self._count(samples.labels[samples.is_correct]).double() / self._count(samples.labels)

    def _worst_confusions(self, samples: "_Samples") -> dict[int, tuple[int, int]]:
        """For each label with a wrong prediction, the most frequent one and how often it occurred."""
        is_wrong = ~samples.is_correct
        # Each pair as one number: a C x C matrix would take half a gigabyte on iNaturalist.
        pairs = samples.labels[is_wrong] * self.num_classes + samples.predictions[is_wrong]
        pairs, times = torch.unique(pairs, return_counts=True)
        worst: dict[int, tuple[int, int]] = {}
        for pair, count in zip(pairs.tolist(), times.tolist(), strict=True):
            label, wrong = divmod(pair, self.num_classes)
            if count > worst.get(label, (0, 0))[1]:
                worst[label] = (wrong, count)
        return worst


@dataclass(frozen=True)
class _Samples:
    """What is stored of the samples, (N,) each."""

    labels: Tensor
    predictions: Tensor
    is_in_top5: Tensor
    confidences: Tensor

    @classmethod
    def of(cls, scores: Tensor, labels: Tensor) -> "_Samples":
        confidences, best = scores.topk(min(5, scores.shape[1]))
        return cls(labels, best[:, 0], (best == labels[:, None]).any(1), confidences[:, 0])

    @classmethod
    def joined(cls, parts: Sequence["_Samples"]) -> "_Samples":
        empty = cls(*(torch.zeros(0, dtype=dtype) for dtype in (torch.int64, torch.int64, torch.bool, torch.float32)))
        columns = zip(*(vars(part).values() for part in (empty, *parts)), strict=True)
        return cls(*(torch.cat(column) for column in columns))

    @property
    def is_correct(self) -> Tensor:
        return self.labels == self.predictions

    def __len__(self) -> int:
        return len(self.labels)


def calibration_error(confidences: Tensor, is_correct: Tensor) -> float:
    r"""ECE, how far confidence is from accuracy: $\sum_b \frac{n_b}{N} |acc_b - conf_b|$ over 15 bins of equal width.

    Args:
        confidences: score of the predicted category, (N,) in [0, 1].
        is_correct: whether the prediction is correct, (N,).
    """
    bins = (confidences.double() * NUM_BINS).ceil().long().sub(1).clamp(0, NUM_BINS - 1)
    gaps = torch.bincount(bins, is_correct.double() - confidences.double(), minlength=NUM_BINS)
    return float(gaps.abs().sum() / len(bins))
