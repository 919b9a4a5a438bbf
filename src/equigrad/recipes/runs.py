"""A run from a recipe to its folder, and back from the folder to its recipe."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from equigrad.engine import EngineError, TrainResult, latest_checkpoint
from equigrad.engine.checkpoint import FOLDER as CHECKPOINTS
from equigrad.engine.run_log import METRICS, RECIPE, check_run_folder
from equigrad.engine.statistics_history import FILE as STATISTICS
from equigrad.files import write_atomically
from equigrad.recipes.catalogue import Recipe, load_recipe


class Judged(Protocol):
    """What an evaluator says, whatever the task."""

    def result(self) -> dict[str, float]:
        """Metrics with the paper's names."""

    def per_category(self) -> Sequence[Any]:
        """A row for each category."""


def train_recipe(
    name: str, assignments: Sequence[str], folder: Path, *, resume: bool, command: Sequence[str]
) -> TrainResult:
    """Train a recipe; `recipe.json` of the run says which it was and what was set."""
    recipe = load_recipe(name, assignments)
    return recipe.run(folder, resume=resume, source=source_of(name, assignments), command=command)


def source_of(name: str, assignments: Sequence[str]) -> dict[str, Any]:
    """What a run remembers of its recipe."""
    return {"recipe": name, "set": list(assignments)}


def recipe_of_run(folder: Path) -> Recipe:
    """The recipe that a run was made from."""
    content = _read_source(folder)
    return load_recipe(content["recipe"], content["set"])


def _read_source(folder: Path) -> dict[str, Any]:
    """`recipe.json` of a run, with what `source_of` gives."""
    file = folder / RECIPE
    if not folder.is_dir():
        raise EngineError(f"{folder}: no such run; expected a folder that `equigrad train` made")
    if not file.is_file():
        raise EngineError(f"{folder}: not the folder of a run, it has no {RECIPE}")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise EngineError(f"{file}: not JSON ({error})") from None
    name, assignments = (content.get("recipe"), content.get("set")) if isinstance(content, dict) else (None, None)
    if not isinstance(name, str) or not isinstance(assignments, list):
        raise EngineError(f"{file}: expected the fields recipe and set, which runs of `equigrad train` have")
    return {**content, **source_of(name, [str(assignment) for assignment in assignments])}


def evaluate_run(folder: Path) -> Judged:
    """Evaluate the newest weights of a run on its test set, and keep the results in its folder."""
    return recipe_of_run(folder).evaluate_run(folder)


def evaluate_variant(folder: Path, assignments: Sequence[str], output: Path) -> Judged:
    """Evaluate the newest weights of a run as a changed recipe reads them, such as NorCal those of a run with CE.

    Args:
        folder: of the run, which stays as it is.
        assignments: in addition to those of the run.
        output: becomes a run folder with the course and the weights of the first, for all that is done with runs.
    """
    content = _read_source(folder)
    source = source_of(content["recipe"], [*content["set"], *assignments])
    recipe = load_recipe(content["recipe"], source["set"])
    check_run_folder(output, resume=False)
    found = latest_checkpoint(folder)
    if found is None:
        raise EngineError(f"{folder} has no checkpoint to load")
    checkpoint, _ = found
    try:
        (output / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
        shutil.copy(checkpoint, output / CHECKPOINTS)
        for name in (METRICS, STATISTICS):
            if (folder / name).exists():
                shutil.copy(folder / name, output)
        write_atomically(output / RECIPE, (json.dumps({**content, **source}, indent=1) + "\n").encode())
        return recipe.evaluate_run(output)
    except BaseException:  # half a run would be in the way of the next try
        shutil.rmtree(output, ignore_errors=True)
        raise
