"""The result of an evaluation of detections: metrics under the papers' names, and a row for every category."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from equigrad.data.frequency import Groups, checked_counts, lvis_split
from equigrad.evaluation.detection.annotations import Annotations, Floats, Ints
from equigrad.evaluation.detection.rules import Rules, annotation_images
from equigrad.evaluation.known_mean import mean_known

GROUP_NAMES = {"r": "rare", "c": "common", "f": "frequent"}


@dataclass(frozen=True)
class DetectionRow:
    """One category: how frequent it is and how well it is detected."""

    name: str
    count: int  # training images if known, else images of this file
    group: str  # rare, common or frequent
    num_images: int  # of this file, without crowds
    num_instances: int  # of this file, without crowds
    AP: float  # nan without annotations
    AP50: float


@dataclass(frozen=True, eq=False)
class CategoryFacts:
    """Names, counts and groups of the C categories."""

    names: tuple[str, ...]
    counts: Ints  # (C,) that make the groups
    groups: Groups
    has_groups: bool  # whether the groups are those of training and not of this file
    num_images: Ints  # (C,)
    num_instances: Ints  # (C,)


@dataclass(frozen=True, eq=False)
class DetectionResult:
    """Precision and recall of C categories, A sizes (all, small, medium, large), T thresholds; nan if not annotated."""

    rules: Rules
    categories: CategoryFacts
    precision: Floats  # (C, A, T)
    recall: Floats  # (C, A, T)
    limited_recall: Floats  # (C, L, T)
    fixed_precision: Floats  # (C, T)
    pool_precision: Floats  # (T,)

    def result(self) -> dict[str, float]:
        """The metrics as fractions in [0, 1] under the papers' names; nan without annotations."""
        return {
            "AP": mean_known(self.precision[:, 0]),
            "AP50": mean_known(self.precision[:, 0, 0]),
            "AP75": mean_known(self.precision[:, 0, 5]),
            **{f"AP{size}": mean_known(self.precision[:, index]) for index, size in enumerate("sml", 1)},
            **self._by_group(self.precision[:, 0]),
            **self._recalls(),
            "AP-fixed": mean_known(self.fixed_precision),
            **{f"{name}-fixed": value for name, value in self._by_group(self.fixed_precision).items()},
            "AP-pool": mean_known(self.pool_precision),
        }

    def per_category(self) -> list[DetectionRow]:
        """One row for each category, in the order of labels."""
        facts = self.categories
        group_of = {int(label): name for name, members in facts.groups.items() for label in members}
        return [
            DetectionRow(
                name,
                int(facts.counts[label]),
                group_of[label],
                int(facts.num_images[label]),
                int(facts.num_instances[label]),
                mean_known(self.precision[label, 0]),
                float(self.precision[label, 0, 0]),
            )
            for label, name in enumerate(facts.names)
        ]

    def _by_group(self, precision: Floats) -> dict[str, float]:
        if not self.categories.has_groups:
            return {}
        return {f"AP{name[0]}": mean_known(precision[members]) for name, members in self.categories.groups.items()}

    def _recalls(self) -> dict[str, float]:
        limited = zip(self.rules.recall_limits, np.moveaxis(self.limited_recall, 1, 0), strict=True)
        by_size = zip(("", "s", "m", "l"), np.moveaxis(self.recall, 1, 0), strict=True)
        return {
            **{f"AR@{limit}": mean_known(recall) for limit, recall in limited},
            **{f"AR{size}@{self.rules.limit}": mean_known(recall) for size, recall in by_size},
        }


def category_facts(annotations: Annotations, train_counts: ArrayLike | None = None) -> CategoryFacts:
    """Names, counts and groups: groups of the file, else by training images, else by the images of this file."""
    names = tuple(annotations.categories.names)
    is_object = ~np.asarray(annotations.is_crowd, np.bool_)
    labels = np.asarray(annotations.labels, np.int64)[is_object]
    num_instances = np.bincount(labels, minlength=len(names))
    image_cells = np.unique(annotation_images(annotations)[is_object] * len(names) + labels)
    num_images = np.bincount(image_cells % len(names), minlength=len(names))
    counts = num_images if train_counts is None else checked_counts(train_counts)
    if len(counts) != len(names):
        raise ValueError(f"train_counts must be ({len(names)},), got ({len(counts)},)")
    letters = annotations.categories.frequency
    if letters is None:
        groups = lvis_split(counts)
    else:
        groups = {name: np.flatnonzero(np.asarray(letters) == letter) for letter, name in GROUP_NAMES.items()}
    has_groups = letters is not None or train_counts is not None
    return CategoryFacts(names, counts, groups, has_groups, num_images, num_instances)
