"""The runs that rows of tables need: each once, however many rows share it."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from equigrad.run_files import EVALUATION
from equigrad.tasks.run_folder import Recipe


class Wanted(NamedTuple):
    """What a row of a table needs."""

    recipe: Recipe
    start: Recipe | None  # of the run it starts from
    is_reading: bool  # nothing is trained: the weights of that run are evaluated by other settings


@dataclass(frozen=True)
class PlannedRun:
    """A run of a table.

    Args:
        name: name of its folder: task, loss, a digest of the settings, and the seed.
        recipe: its settings.
        start: the run whose weights it starts from.
        is_reading: nothing is trained: it is an evaluation of that run's weights by other settings.
    """

    name: str
    recipe: Recipe
    start: "PlannedRun | None" = None
    is_reading: bool = False

    def is_finished(self, folder: Path) -> bool:
        """Whether the folder of runs has its results."""
        return (folder / self.name / EVALUATION).exists()


def planned_run(wanted: Wanted, seed: int) -> PlannedRun:
    """The run of a row with a seed."""
    start = None if wanted.start is None else planned_run(Wanted(wanted.start, None, False), seed)
    recipe: Any = wanted.recipe
    seeded = replace(recipe, training=replace(recipe.training, seed=seed), table="", row="")
    digest = _digest(seeded, start)
    loss = type(getattr(seeded.method.loss, "loss", seeded.method.loss)).__name__  # inside an objectness branch
    kind = type(recipe).__name__.removesuffix("Recipe")
    return PlannedRun(f"{kind}_{loss}_{digest}_{seed}".lower(), seeded, start, wanted.is_reading)


def in_order(runs: Sequence[PlannedRun]) -> list[PlannedRun]:
    """Every run once, after the one it starts from."""
    found: dict[str, PlannedRun] = {}
    for run in runs:
        if run.start is not None:
            found.setdefault(run.start.name, run.start)
        found.setdefault(run.name, run)
    return list(found.values())


def _digest(recipe: Any, start: PlannedRun | None) -> str:
    """The same for the same settings, whatever they are called in a table."""
    training = replace(recipe.training, seed=0, num_workers=0)
    settings = _changed(replace(recipe, training=training, init=None, device="auto"))
    content = json.dumps([settings, None if start is None else start.name.rpartition("_")[0]], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:8]


def _changed(value: Any) -> Any:
    """Settings as JSON, without those at their default: a setting that is new in a version leaves runs their names."""
    if is_dataclass(value):
        found = {each.name: getattr(value, each.name) for each in fields(value)}
        changed = {each.name for each in fields(value) if found[each.name] != _default(each)}
        return {"type": type(value).__name__, **{name: _changed(found[name]) for name in sorted(changed)}}
    if isinstance(value, tuple):
        return [_changed(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _default(each: Field[Any]) -> Any:
    return each.default if each.default_factory is MISSING else each.default_factory()
