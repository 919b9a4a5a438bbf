"""The files of a run folder, read and checked; nothing is unpickled.

recipe.json        settings, versions, seed and command                          needed
metrics.jsonl      one object for each logged step                               needed
statistics.npz     `steps` (T,), `<path>.positive` and `<path>.negative` (T, C)  if the loss keeps statistics
                   `<path>.seen`, `<path>.compared` and `<path>.won` (T, C)      not in runs of earlier versions
evaluation.json    see `Evaluation`                                              absent before `equigrad evaluate`
"""

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeGuard

import numpy as np
from numpy.typing import NDArray

from equigrad.analysis.lost_lines import lost_lines
from equigrad.arrays import read_npz
from equigrad.data.frequency import shot_split
from equigrad.files import write_atomically
from equigrad.run_files import EVALUATION as EVALUATION, METRICS, RECIPE, STATISTICS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Json = dict[str, Any]

_TEST_COUNTS = ("num_test", "num_pixels", "num_instances")  # what evaluators call the test samples of a category
_MAX_COUNT = 2**53  # larger integers are not exact in all JSON tools


@dataclass(frozen=True, eq=False)
class StatisticsOverTime:
    """Snapshots of one `GradientStatistics` at T steps."""

    steps: Ints  # (T,)
    positive: Floats  # (T, C)  G_j^pos
    negative: Floats  # (T, C)  G_j^neg

    @property
    def ratio(self) -> Floats:
        """G_j, (T, C); NaN as long as a category has no negative gradient."""
        nothing = np.full_like(self.positive, np.nan)
        return np.divide(self.positive, self.negative, out=nothing, where=self.negative > 0)


@dataclass(frozen=True, eq=False)
class RecognitionOverTime:
    """Which of its own training samples each category wins, at T steps; see `equigrad.meter.recognition`."""

    steps: Ints  # (T,)
    seen: Floats  # (T, C) samples so far
    share: Floats  # (T, C) of the recent ones, those won; NaN before the first


@dataclass(frozen=True)
class CategoryResult:
    """How well one category is recognised.

    Args:
        name: shown on the page.
        count: of training samples, in whatever unit the task counts.
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
        content = _read_object(file)
        result = _fractions(file, "result", content.get("result"))
        if not result:
            raise ValueError(f"{file}: result must have at least one metric")
        entries = content.get("categories", [])
        if not isinstance(entries, list):
            raise ValueError(f"{file}: categories must be a list, got {_kind(entries)}")
        categories = tuple(_category(file, f"categories[{number}]", entry) for number, entry in enumerate(entries))
        return cls(result, _with_groups(file, categories))

    def names_and_counts(self) -> tuple[list[str], NDArray[np.int64]]:
        """Names of the categories, and how often each was in training, (C,)."""
        counts = np.array([category.count for category in self.categories], dtype=np.int64)
        return [category.name for category in self.categories], counts


@dataclass(frozen=True, eq=False)
class RunHistory:
    """A run: its settings, the course of its training, and its test results.

    Args:
        name: shown on the page.
        folder: of the run.
        recipe: the content of `recipe.json`.
        metrics: the lines of `metrics.jsonl`.
        statistics: by path in the model; empty if its loss keeps none.
        evaluation: None if the run was not evaluated.
        recognition: by path of the loss in the model; empty in runs of earlier versions.
    """

    name: str
    folder: Path
    recipe: Json
    metrics: tuple[Json, ...]
    statistics: Mapping[str, StatisticsOverTime]
    evaluation: Evaluation | None
    recognition: Mapping[str, RecognitionOverTime] = field(default_factory=dict)

    @property
    def commands(self) -> list[list[str]]:
        """Commands that started the run and resumed it."""
        starts = self.recipe.get("starts") or [self.recipe]
        return [[str(word) for word in start.get("command", [])] for start in starts]

    @property
    def checks(self) -> list[tuple[int, str, float]]:
        """Step, first metric and its value of each evaluation of a part of the test set."""
        return self._first_metrics("check")

    @property
    def tests(self) -> list[tuple[int, str, float]]:
        """The same of each evaluation of the whole test set during training."""
        return self._first_metrics("evaluation")

    def _first_metrics(self, field: str) -> list[tuple[int, str, float]]:
        found = ((line["step"], line.get(field)) for line in self.metrics)
        firsts = ((step, *next(iter(values.items()))) for step, values in found if isinstance(values, dict) and values)
        return [(step, name, float(value)) for step, name, value in firsts if _is_number(value) and 0 <= value <= 1]

    @property
    def lost_lines(self) -> str | None:
        """What its log has lost, in one line; None if nothing is known to be missing."""
        return lost_lines(self.folder, self.recipe.get("starts", []), (line["step"] for line in self.metrics))

    @classmethod
    def load(cls, folder: str | Path, name: str | None = None) -> Self:
        """Read a run, called like its folder unless named.

        Raises ValueError with one line that names the file and the field which is missing or broken.
        """
        folder = Path(folder)
        if not folder.is_dir():
            raise ValueError(f"{folder}: no such run; expected a folder that `equigrad train` made")
        statistics, recognition = _read_statistics(folder / STATISTICS) if (folder / STATISTICS).exists() else ({}, {})
        run = cls(
            name=folder.resolve().name if name is None else name,
            folder=folder,
            recipe=_read_recipe(folder / RECIPE),
            metrics=_read_metrics(folder / METRICS),
            statistics=statistics,
            evaluation=Evaluation.load(folder) if (folder / EVALUATION).exists() else None,
            recognition=recognition,
        )
        run._check_sizes()
        return run

    def _check_sizes(self) -> None:
        """Statistics and evaluation must have the same number of categories."""
        num_listed = len(self.evaluation.categories) if self.evaluation else 0
        sizes = {path: history.positive.shape[1] for path, history in self.statistics.items()}
        sizes |= {path: history.share.shape[1] for path, history in self.recognition.items()}
        for path, num_watched in sizes.items():
            if num_listed and num_watched != num_listed:
                raise ValueError(
                    f"{self.folder / EVALUATION}: categories must be the {num_watched} of {path} in {STATISTICS}, "
                    f"got {num_listed}"
                )


def _read_recipe(file: Path) -> Json:
    recipe = _read_object(file)
    starts = recipe.get("starts", [])
    if not isinstance(starts, list) or not all(isinstance(start, dict) for start in starts):
        raise ValueError(f"{file}: starts must be a list of objects")
    for start in [recipe, *starts]:
        if not isinstance(start.get("command", []), list):
            raise ValueError(f"{file}: command must be a list of words, got {_kind(start['command'])}")
    for name in ("settings", "versions"):
        if not isinstance(recipe.get(name, {}), dict):
            raise ValueError(f"{file}: {name} must be an object, got {_kind(recipe[name])}")
    return recipe


def _read_metrics(file: Path) -> tuple[Json, ...]:
    lines = _read_bytes(file).splitlines(keepends=True)
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()  # a killed run may leave half a line
    found = []
    for number, line in enumerate(lines, start=1):
        values = _parse(file, line, f"line {number}")
        if not isinstance(values, dict) or not _is_number(values.get("step")):
            raise ValueError(f"{file}: line {number} must be an object with a step")
        found.append(values)
    return tuple(found)


def _read_statistics(file: Path) -> tuple[dict[str, StatisticsOverTime], dict[str, RecognitionOverTime]]:
    columns = read_npz(file)
    steps = columns.pop("steps", None)
    if steps is None or steps.ndim != 1 or not np.issubdtype(steps.dtype, np.integer) or len(steps) == 0:
        raise ValueError(f"{file}: steps must be (T,) whole numbers with T >= 1")
    if (np.diff(steps) <= 0).any():
        raise ValueError(f"{file}: steps must ascend")
    steps = steps.astype(np.int64)
    paths, losses = (
        [name.removesuffix(ending) for name in columns if name.endswith(ending)] for ending in (".positive", ".seen")
    )
    statistics = {
        path: StatisticsOverTime(steps, *_sums(file, path, ("positive", "negative"), steps, columns)) for path in paths
    }
    return statistics, {path: _recognition(file, path, steps, columns) for path in losses}


def _recognition(file: Path, path: str, steps: Ints, columns: Mapping[str, NDArray[Any]]) -> RecognitionOverTime:
    seen, compared, won = _sums(file, path, ("seen", "compared", "won"), steps, columns)
    share = np.divide(won, compared, out=np.full_like(won, np.nan), where=compared > 0)
    return RecognitionOverTime(steps, seen, share)


def _sums(
    file: Path, path: str, names: Sequence[str], steps: Ints, columns: Mapping[str, NDArray[Any]]
) -> list[Floats]:
    """Columns (T, C) of one path, checked."""
    found: list[Floats] = []
    for name in (f"{path}.{name}" for name in names):
        sums = columns.get(name)
        if sums is None:
            raise ValueError(f"{file}: {name} is missing")
        is_like_first = not found or sums.shape == found[0].shape
        if sums.ndim != 2 or len(sums) != len(steps) or not is_like_first or sums.shape[1] == 0:
            raise ValueError(f"{file}: {name} must be ({len(steps)}, C), got {sums.shape}")
        if not np.issubdtype(sums.dtype, np.number) or not np.isfinite(sums).all() or (sums < 0).any():
            raise ValueError(f"{file}: {name} must be finite numbers from 0")
        found.append(sums.astype(np.float64))
    return found


def _category(file: Path, field: str, entry: Any) -> CategoryResult:
    if not isinstance(entry, dict):
        raise ValueError(f"{file}: {field} must be an object, got {_kind(entry)}")
    name, group = entry.get("name"), entry.get("group")
    if not isinstance(name, str):
        raise ValueError(f"{file}: {field}.name must be text, got {_kind(name)}")
    count = _whole_number(file, f"{field}.count", entry.get("count"))
    num_test = _whole_number(file, f"{field}.num_test", entry["num_test"]) if "num_test" in entry else None
    if not isinstance(group, str | None):
        raise ValueError(f"{file}: {field}.group must be text, got {_kind(group)}")
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
        raise ValueError(f"{file}: {field} must be an object of metrics, got {_kind(values)}")
    for name, value in values.items():
        if value is not None and not (_is_number(value) and 0 <= value <= 1):
            raise ValueError(f"{file}: {field}.{name} must be a fraction in [0, 1] or null, got {value!r}")
    return {name: None if value is None else float(value) for name, value in values.items()}


def _plain(category: CategoryResult) -> Json:
    optional = {"group": category.group, "num_test": category.num_test}
    known = {key: value for key, value in optional.items() if value is not None}
    return {"name": category.name, "count": category.count, **known, **category.metrics}


def _read_object(file: Path) -> Json:
    content = _parse(file, _read_bytes(file))
    if not isinstance(content, dict):
        raise ValueError(f"{file}: must hold one object, got {_kind(content)}")
    return content


def _read_bytes(file: Path) -> bytes:
    if not file.is_file():  # a pipe or a device would have no end
        raise ValueError(f"{file}: no such file; its folder is not that of a run")
    try:
        return file.read_bytes()
    except OSError as error:
        raise ValueError(f"{file}: cannot be read ({error.strerror})") from None


def _parse(file: Path, text: bytes, where: str = "content") -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file}: {where} is not JSON ({_first_line(error)})") from None


def _is_number(value: Any) -> TypeGuard[float]:
    return (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, float) and math.isfinite(value)
    )


def _kind(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
