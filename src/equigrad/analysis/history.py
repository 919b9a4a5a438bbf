"""The files of a run folder, read and checked; nothing is unpickled.

recipe.json        settings, versions, seed and command                          needed
metrics.jsonl      one object for each logged step                               needed
statistics.npz     `steps` (T,), `<path>.positive` and `<path>.negative` (T, C)  if the loss keeps statistics
                   `<path>.seen`, `<path>.compared` and `<path>.won` (T, C)      not in runs of earlier versions
evaluation.json    see `Evaluation`                                              absent before `equigrad evaluate`
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from equigrad.analysis.evaluation_file import Evaluation
from equigrad.analysis.json_files import Json, is_number, kind_of, parse, read_bytes, read_object
from equigrad.analysis.lost_lines import lost_lines
from equigrad.analysis.snapshots import RecognitionOverTime, StatisticsOverTime, read_snapshots
from equigrad.run_files import EVALUATION, METRICS, RECIPE, STATISTICS


@dataclass(frozen=True, eq=False)
class RunHistory:
    """A run: its settings, the course of its training, and its test results.

    Args:
        name: shown on the page.
        folder: the run folder.
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
        return [(step, name, float(value)) for step, name, value in firsts if is_number(value) and 0 <= value <= 1]

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
        statistics, recognition = read_snapshots(folder / STATISTICS) if (folder / STATISTICS).exists() else ({}, {})
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
    recipe = read_object(file)
    starts = recipe.get("starts", [])
    if not isinstance(starts, list) or not all(isinstance(start, dict) for start in starts):
        raise ValueError(f"{file}: starts must be a list of objects")
    for start in [recipe, *starts]:
        if not isinstance(start.get("command", []), list):
            raise ValueError(f"{file}: command must be a list of words, got {kind_of(start['command'])}")
    for name in ("settings", "versions"):
        if not isinstance(recipe.get(name, {}), dict):
            raise ValueError(f"{file}: {name} must be an object, got {kind_of(recipe[name])}")
    return recipe


def _read_metrics(file: Path) -> tuple[Json, ...]:
    lines = read_bytes(file).splitlines(keepends=True)
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()  # a killed run may leave half a line
    found = []
    for number, line in enumerate(lines, start=1):
        values = parse(file, line, f"line {number}")
        if not isinstance(values, dict) or not is_number(values.get("step")):
            raise ValueError(f"{file}: line {number} must be an object with a step")
        found.append(values)
    return tuple(found)
