"""What `evaluation.json` has: how well a run does on the test set, as a whole and for each category."""

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from equigrad.analysis.json_files import Json, is_number, kind_of, read_object
from equigrad.data.frequency import shot_split
from equigrad.files import write_atomically
from equigrad.run_files import EVALUATION

_TEST_COUNTS = ("num_test", "num_pixels", "num_instances")  # what evaluators call the test samples of a category
_MAX_COUNT = 2**53  # larger integers are not exact in all JSON tools


@dataclass(frozen=True)
class CategoryResult:
    """How well one category is recognised.

    Args:
        name: shown on the page.
        count: number of training samples, in the unit of the task.
        metrics: fractions in [0, 1] by name; None where the test set has no samples.
        group: by frequency, such as "rare"; None in all categories stands for many, medium and few by count.
        num_test: test samples (images, pixels or objects); None if unknown.
    """

    name: str
    count: int
    metrics: Mapping[str, float | None]
    group: str | None = None
    num_test: int | None = None


@dataclass(frozen=True)
class Evaluation:
    """The content of `evaluation.json`: how well a run does on the test set.

        {"result": {"AP": 0.255, "APr": 0.177},
         "categories": [{"name": "aerosol_can", "count": 109, "group": "frequent", "AP": 0.31}, …]}

    Metrics are fractions in [0, 1], written with a decimal point, or null where the test set has none. In a category
    every such field is a metric; text and other whole numbers than `count` and `num_test` are left to other readers.

    Args:
        result: metrics of the whole test set with the paper's names; the first is the headline.
        categories: in the order of the model's outputs; the first metric of the first one is the one shown.
    """

    result: Mapping[str, float | None]
    categories: tuple[CategoryResult, ...] = ()

    def save(self, folder: str | Path) -> Path:
        """Write the file into the folder of a run."""
        content = {"result": dict(self.result), "categories": [_plain(category) for category in self.categories]}
        file = Path(folder, EVALUATION)
        write_atomically(file, json.dumps(content, indent=1, allow_nan=False).encode())
        return file

    @classmethod
    def from_rows(cls, result: Mapping[str, float], rows: Iterable[Any]) -> Self:
        """From what an evaluator gives: its result, and a mapping or dataclass for each category; nan becomes None."""
        categories = (dict(row) if isinstance(row, Mapping) else dataclasses.asdict(row) for row in rows)
        return cls(_known(result), tuple(_category_of(category) for category in categories))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read the file from the folder of a run; raises ValueError with one line if it is not as described."""
        file = Path(folder, EVALUATION)
        content = read_object(file)
        result = _fractions(file, "result", content.get("result"))
        if not result:
            raise ValueError(f"{file}: result must have at least one metric")
        entries = content.get("categories", [])
        if not isinstance(entries, list):
            raise ValueError(f"{file}: categories must be a list, got {kind_of(entries)}")
        categories = tuple(_category(file, f"categories[{number}]", entry) for number, entry in enumerate(entries))
        return cls(result, _with_groups(file, categories))

    def names_and_counts(self) -> tuple[list[str], NDArray[np.int64]]:
        """Names of the categories, and how often each was in training, (C,)."""
        counts = np.array([category.count for category in self.categories], dtype=np.int64)
        return [category.name for category in self.categories], counts


def _category(file: Path, field: str, entry: Any) -> CategoryResult:
    if not isinstance(entry, dict):
        raise ValueError(f"{file}: {field} must be an object, got {kind_of(entry)}")
    name, group = entry.get("name"), entry.get("group")
    if not isinstance(name, str):
        raise ValueError(f"{file}: {field}.name must be text, got {kind_of(name)}")
    count = _whole_number(file, f"{field}.count", entry.get("count"))
    num_test = _whole_number(file, f"{field}.num_test", entry["num_test"]) if "num_test" in entry else None
    if not isinstance(group, str | None):
        raise ValueError(f"{file}: {field}.group must be text, got {kind_of(group)}")
    return CategoryResult(name, count, _fractions(file, field, _metrics_of(entry)), group, num_test)


def _whole_number(file: Path, field: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_COUNT:
        raise ValueError(f"{file}: {field} must be a whole number from 0, got {value!r:.60}")
    return value


def _category_of(row: Json) -> CategoryResult:
    num_test = next((int(row[key]) for key in _TEST_COUNTS if key in row), None)
    return CategoryResult(str(row["name"]), int(row["count"]), _known(_metrics_of(row)), row.get("group"), num_test)


def _metrics_of(entry: Json) -> Json:
    named = ("name", "count", "group", "num_test")
    return {key: value for key, value in entry.items() if key not in named and isinstance(value, float | None)}


def _known(metrics: Mapping[str, float | None]) -> dict[str, float | None]:
    return {name: None if value is None or math.isnan(value) else float(value) for name, value in metrics.items()}


def _with_groups(file: Path, categories: tuple[CategoryResult, ...]) -> tuple[CategoryResult, ...]:
    """Groups by count if the file has none; a file with groups for some categories only is refused."""
    missing = [number for number, category in enumerate(categories) if category.group is None]
    if not missing:
        return categories
    if len(missing) < len(categories):
        raise ValueError(f"{file}: categories[{missing[0]}].group is missing, though other categories have one")
    groups = shot_split([category.count for category in categories])
    group_of = {int(index): group for group, members in groups.items() for index in members}
    return tuple(replace(category, group=group_of[index]) for index, category in enumerate(categories))


def _fractions(file: Path, field: str, values: Any) -> dict[str, float | None]:
    if not isinstance(values, dict):
        raise ValueError(f"{file}: {field} must be an object of metrics, got {kind_of(values)}")
    for name, value in values.items():
        if value is not None and not (is_number(value) and 0 <= value <= 1):
            raise ValueError(f"{file}: {field}.{name} must be a fraction in [0, 1] or null, got {value!r}")
    return {name: None if value is None else float(value) for name, value in values.items()}


def _plain(category: CategoryResult) -> Json:
    optional = {"group": category.group, "num_test": category.num_test}
    known = {key: value for key, value in optional.items() if value is not None}
    return {"name": category.name, "count": category.count, **known, **category.metrics}
