"""A run from a recipe to its folder, and back from the folder to its recipe."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from equigrad.engine import EngineError, TrainResult
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
    file = folder / "recipe.json"
    if not folder.is_dir():
        raise EngineError(f"{folder}: no such run; expected a folder that `equigrad train` made")
    if not file.is_file():
        raise EngineError(f"{folder}: not the folder of a run, it has no recipe.json")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise EngineError(f"{file}: not JSON ({error})") from None
    name, assignments = (content.get("recipe"), content.get("set")) if isinstance(content, dict) else (None, None)
    if not isinstance(name, str) or not isinstance(assignments, list):
        raise EngineError(f"{file}: expected the fields recipe and set, which runs of `equigrad train` have")
    return load_recipe(name, [str(assignment) for assignment in assignments])


def evaluate_run(folder: Path) -> Judged:
    """Evaluate the newest weights of a run on its test set, and keep the results in its folder."""
    return recipe_of_run(folder).evaluate_run(folder)
