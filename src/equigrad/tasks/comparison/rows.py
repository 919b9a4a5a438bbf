"""The rows of a comparison, each method with each seed, in a folder that keeps them as they finish.

comparison.json     task, and the settings of each method
rows/METHOD_SEED/   evaluation.json of a row; with --trained it is the folder of a run
features/           of frozen backbones
"""

import json
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from equigrad.analysis.compared_methods import COLUMNS, ComparedMethods
from equigrad.analysis.evaluation_file import Evaluation
from equigrad.analysis.rounding import percent
from equigrad.engine import EngineError
from equigrad.evaluation.tables import write_table
from equigrad.files import remove_temporary_files, write_atomically
from equigrad.run_files import EVALUATION, RECIPE
from equigrad.settings import differences, from_json, to_json
from equigrad.tasks.comparison.last_layer import FrozenFeatures, LastLayer
from equigrad.tasks.run_folder import Recipe, task_of

SETTINGS = "comparison.json"
FORMAT = 1
"""Version of `comparison.json`; it changes when older readers would misunderstand the file."""

_MAY_CHANGE = ("device", "training.num_workers")  # they change the speed, not the results

Measure = Callable[[str, int], bool]
"""Measures a method with a seed and keeps the evaluation in the folder of the row; False if it was stopped."""


@dataclass(frozen=True)
class Method:
    """A method in a comparison.

    Args:
        recipe: its settings.
        source: what `recipe.json` says about it.
        first_stage: name of the method whose finished model it starts from.
    """

    recipe: Recipe
    source: Mapping[str, Any]
    first_stage: str | None = None


class ComparisonFolder:
    """The folder of a comparison.

    Args:
        folder: created if needed.
        task: a key of `COLUMNS`.
        last_layer: how last layers are trained on frozen features; None trains whole models.
    """

    def __init__(self, folder: Path, task: str, last_layer: LastLayer | None) -> None:
        self.folder, self.task, self.last_layer = folder, task, last_layer

    def row(self, name: str, seed: int) -> Path:
        """The folder of a row."""
        return self.folder / "rows" / f"{name}_{seed}"

    def is_finished(self, name: str, seed: int) -> bool:
        """Whether a row has been measured."""
        return (self.row(name, seed) / EVALUATION).exists()

    def keep_settings(self, methods: Mapping[str, Method]) -> None:
        """Write the settings of the methods; EngineError if one was measured with others before."""
        content = self._stored()
        known = content["methods"]
        for name, method in methods.items():
            if name in known and self._has_rows(name):
                self._check_same(name, known[name], method.recipe)
            known[name] = to_json(method.recipe)
        self.folder.mkdir(parents=True, exist_ok=True)
        remove_temporary_files(self.folder)
        write_atomically(self.folder / SETTINGS, (json.dumps(content, indent=1) + "\n").encode())

    def forget_if_nothing_began(self) -> None:
        """Remove the settings if there is no row: the data could not be read."""
        if not (self.folder / "rows").exists():
            (self.folder / SETTINGS).unlink(missing_ok=True)

    def load(self, methods: Sequence[str], num_seeds: int) -> ComparedMethods:
        """The results of finished rows."""
        folders = {name: [self.row(name, seed) for seed in range(num_seeds)] for name in methods}
        return ComparedMethods.load(self.task, folders)

    def _stored(self) -> dict[str, Any]:
        """What the file says, after checking that it is about the same kind of comparison."""
        kind = {"format": FORMAT, "task": self.task, "last_layer": to_json(self.last_layer)}
        file = self.folder / SETTINGS
        if not file.exists() or not (self.folder / "rows").exists():  # nothing has been measured
            return {**kind, "methods": {}}
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            stored = {key: content[key] for key in kind}
            if not isinstance(content["methods"], dict):
                raise TypeError("methods")
        except (ValueError, KeyError, TypeError, RecursionError):
            raise EngineError(f"{file}: expected the settings of a comparison; choose another --folder") from None
        for key, value in kind.items():
            if stored[key] != value:
                before, now = _shown(stored[key]), _shown(value)
                raise EngineError(f"{self.folder} was made with {key} {before}, not {now}; choose another --folder")
        return {**kind, "methods": content["methods"]}

    def _has_rows(self, name: str) -> bool:
        """Whether a method has been measured with any seed, or its training has begun."""
        row = re.compile(rf"{re.escape(name)}_\d+")
        return any(row.fullmatch(path.name) for path in (self.folder / "rows").glob("*"))

    def _check_same(self, name: str, stored: Any, recipe: Recipe) -> None:
        try:
            before = from_json(Recipe, stored)
        except ValueError as error:
            raise EngineError(f"{self.folder / SETTINGS}: {name}: {error}") from None
        for path, (old, new) in differences(before, recipe).items():
            if path not in _MAY_CHANGE:
                hint = f", or name a variant: --methods NAME={name}" if path.startswith("method.") else ""
                raise EngineError(
                    f"{self.folder}: {name} was measured with {path}={old}, not {new}; choose another --folder{hint}"
                )


def measure_rows(folder: ComparisonFolder, methods: Sequence[str], num_seeds: int, measure: Measure) -> bool:
    """Measure what is missing, all methods with one seed before the next; False if it was stopped.

    After each row `rows.csv` has it, and a line says how long the others will take.
    """
    wanted = [(name, seed) for seed in range(num_seeds) for name in methods]
    missing = [row for row in wanted if not folder.is_finished(*row)]
    if len(missing) < len(wanted):
        print(f"{len(wanted) - len(missing)} of {len(wanted)} rows are there from before")
        _write_rows(folder, wanted)  # a process that was killed may have finished a row that the file lacks
    start = time.monotonic()
    for number, (name, seed) in enumerate(missing, start=1):
        if not measure(name, seed):
            return False
        seconds = (time.monotonic() - start) / number
        left = len(missing) - number
        rest = f", {seconds:.3g} s per row, about {timedelta(seconds=round(seconds * left))} left" if left else ""
        print(f"{number} of {len(missing)}  {name}, seed {seed}: {_numbers(folder, name, seed)}{rest}", flush=True)
        _write_rows(folder, wanted)
    return True


def frozen_measure(folder: ComparisonFolder, methods: Mapping[str, Method], last_layer: LastLayer) -> Measure:
    """Trains last layers on the features of a frozen backbone, which are computed now if they are not there."""
    recipes: dict[str, Any] = {name: method.recipe for name, method in methods.items()}
    first_stages = {name: method.first_stage for name, method in methods.items() if method.first_stage is not None}
    features = FrozenFeatures(recipes, first_stages, last_layer, folder.folder / "features")

    def measure(name: str, seed: int) -> bool:
        row = folder.row(name, seed)
        row.mkdir(parents=True, exist_ok=True)
        result = features.measure(name, seed)
        Evaluation.from_rows(result.metrics, result.categories).save(row)
        return True

    return measure


def trained_measure(folder: ComparisonFolder, methods: Mapping[str, Method], command: Sequence[str]) -> Measure:
    """Trains whole models; a row that was stopped continues from its last checkpoint."""

    def measure(name: str, seed: int) -> bool:
        method, row = methods[name], folder.row(name, seed)
        recipe: Any = replace(method.recipe, training=replace(method.recipe.training, seed=seed))
        if method.first_stage is not None:
            recipe = replace(recipe, init=folder.row(method.first_stage, seed))
        print(f"{name}, seed {seed}", file=sys.stderr, flush=True)
        source = {**method.source, "settings": to_json(recipe)}
        resume = (row / RECIPE).exists()
        return not task_of(recipe).train(recipe, row, resume=resume, source=source, command=command).interrupted

    return measure


def _numbers(folder: ComparisonFolder, name: str, seed: int) -> str:
    result = Evaluation.load(folder.row(name, seed)).result
    found = [(column.name, result.get(column.metric)) for column in COLUMNS[folder.task]]
    return "  ".join(f"{heading} {percent(value)}" for heading, value in found)


def _write_rows(folder: ComparisonFolder, wanted: Sequence[tuple[str, int]]) -> None:
    finished = [row for row in wanted if folder.is_finished(*row)]
    results = [
        {"method": name, "seed": seed, **Evaluation.load(folder.row(name, seed)).result} for name, seed in finished
    ]
    write_table(results, folder.folder / "rows.csv")


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={item}" for name, item in value.items() if name != "type")
    return "none" if value is None else str(value)
