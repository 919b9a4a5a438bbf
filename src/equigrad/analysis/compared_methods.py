"""Methods measured with several seeds on one test set: means, spreads and differences from the first method."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from equigrad.analysis.evaluation_file import CategoryResult, Evaluation
from equigrad.analysis.paired_differences import Differences, Quantity, paired_differences
from equigrad.analysis.snapshots import Floats


@dataclass(frozen=True)
class Column:
    """What methods are compared in.

    Args:
        name: heading.
        where: the same in a sentence.
        metric: metric of the whole test set, in `evaluation.json`.
        of_category: metric of single categories that it is the mean of; None if it is no such mean.
        group: group of categories that it covers; None is all.
        by_samples: categories count by their test samples; otherwise each counts the same.
    """

    name: str
    where: str
    metric: str
    of_category: str | None
    group: str | None = None
    by_samples: bool = False


_DETECTION = (
    Column("overall (AP-pool)", "overall", "AP-pool", None),
    Column("category mean (AP)", "in category mean", "AP", "AP"),
    Column("frequent", "on frequent categories", "APf", "AP", "frequent"),
    Column("common", "on common categories", "APc", "AP", "common"),
    Column("rare", "on rare categories", "APr", "AP", "rare"),
)
COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "classification": (
        Column("overall", "overall", "Overall", "accuracy", by_samples=True),
        Column("category mean", "in category mean", "mean_class_accuracy", "accuracy"),
        Column("many", "on many-shot categories", "Many", "accuracy", "Many"),
        Column("medium", "on medium-shot categories", "Medium", "accuracy", "Medium"),
        Column("few", "on few-shot categories", "Few", "accuracy", "Few"),
    ),
    "multi_label": (
        Column("overall (F1)", "overall", "F1", None),
        Column("category mean (mAP)", "in category mean", "mAP", "AP"),
        Column("many", "on many-shot categories", "Many", "AP", "Many"),
        Column("medium", "on medium-shot categories", "Medium", "AP", "Medium"),
        Column("few", "on few-shot categories", "Few", "AP", "Few"),
    ),
    "semantic_segmentation": (
        Column("overall (aAcc)", "overall", "aAcc", "Acc", by_samples=True),
        Column("category mean (mIoU)", "in category mean", "mIoU", "IoU"),
        Column("head", "on head categories", "mIoU1", "IoU", "head"),
        Column("medium", "on medium categories", "mIoU2", "IoU", "medium"),
        Column("tail", "on tail categories", "mIoU3", "IoU", "tail"),
    ),
    "detection": _DETECTION,
    "instance_segmentation": _DETECTION,
}
"""The columns of each task: the whole test set, the mean over categories, and the groups, head first."""

CATEGORY_MEAN = 1
"""The column that decides: the test set has a tail as well, so that the overall metric is that of the head."""


@dataclass(frozen=True, eq=False)
class ComparedMethods:
    """M methods with S seeds each, in K columns and C categories.

    Args:
        task: a key of `COLUMNS`.
        methods: M names; the first is what the others are compared with.
        evaluations: S of each method, in the order of seeds.
    """

    task: str
    methods: tuple[str, ...]
    evaluations: tuple[tuple[Evaluation, ...], ...]

    @classmethod
    def load(cls, task: str, folders: Mapping[str, Sequence[Path]]) -> "ComparedMethods":
        """Read the evaluation of each seed of each method; ValueError if their categories differ."""
        evaluations = tuple(tuple(Evaluation.load(folder) for folder in seeds) for seeds in folders.values())
        first = _facts(evaluations[0][0].categories)
        for (_, seeds), row in zip(folders.items(), evaluations, strict=True):
            for folder, evaluation in zip(seeds, row, strict=True):
                if _facts(evaluation.categories) != first:
                    where = next(iter(folders.values()))[0]
                    raise ValueError(f"{folder}: its categories are not those of {where}; the data must have changed")
        return cls(task, tuple(folders), evaluations)

    @property
    def columns(self) -> tuple[Column, ...]:
        """K of them."""
        return COLUMNS[self.task]

    @property
    def categories(self) -> tuple[CategoryResult, ...]:
        """C of them, as the first evaluation has them."""
        return self.evaluations[0][0].categories

    @property
    def num_seeds(self) -> int:
        """S."""
        return len(self.evaluations[0])

    @property
    def num_test(self) -> int:
        """Test samples of all categories."""
        return sum(category.num_test or 0 for category in self.categories)

    @cached_property
    def results(self) -> Floats:
        """(M, S, K) in per cent; nan for a group without categories."""
        names = [column.metric for column in self.columns]
        rows = [[[_number(e.result.get(name)) for name in names] for e in row] for row in self.evaluations]
        return 100 * np.array(rows)

    @property
    def means(self) -> Floats:
        """(M, K) in per cent."""
        return np.asarray(self.results.mean(axis=1))

    @property
    def spreads(self) -> Floats:
        """(M, K) standard deviation over seeds, in points; nan with one seed."""
        return self.results.std(axis=1, ddof=1) if self.num_seeds > 1 else np.full_like(self.means, np.nan)

    def of_categories(self, metric: str) -> Floats:
        """(M, S, C) metric of each category in per cent; nan where the test set has none."""
        values = [[[_number(c.metrics.get(metric)) for c in e.categories] for e in row] for row in self.evaluations]
        return 100 * np.array(values)

    @cached_property
    def differences(self) -> Differences:
        """Paired differences from the first method in every column, in points."""
        return self.differences_from(0)

    def differences_from(self, baseline: int) -> Differences:
        """Paired differences from any method."""
        names = [str(category.group) for category in self.categories]
        groups = np.unique(names, return_inverse=True)[1]
        return paired_differences([self._quantity(column) for column in self.columns], groups, baseline)

    def _quantity(self, column: Column) -> Quantity:
        if column.of_category is None:
            shape = (len(self.methods), self.num_seeds, len(self.categories))
            return Quantity(np.full(shape, np.nan), np.ones(len(self.categories)))
        samples = [(c.num_test or 0) if column.by_samples else 1 for c in self.categories]
        is_member = [column.group is None or c.group == column.group for c in self.categories]
        return Quantity(self.of_categories(column.of_category), np.where(is_member, samples, 0).astype(np.float64))


def _facts(categories: Sequence[CategoryResult]) -> list[tuple[str, int, str | None, int | None]]:
    return [(category.name, category.count, category.group, category.num_test) for category in categories]


def _number(value: float | None) -> float:
    return np.nan if value is None else value
