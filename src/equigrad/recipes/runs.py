"""A run from a recipe to its folder, and back from the folder to its evaluation."""

import json
from collections.abc import Sequence
from pathlib import Path

from equigrad.analysis.history import Evaluation
from equigrad.engine import EngineError, TrainResult
from equigrad.engine.checkpoint import load_weights
from equigrad.evaluation.classification import ClassificationEvaluator
from equigrad.recipes.catalogue import Recipe, load_recipe


def train_recipe(
    name: str, assignments: Sequence[str], folder: Path, *, resume: bool, command: Sequence[str]
) -> TrainResult:
    """Train a recipe; `recipe.json` of the run says which it was and what was set."""
    recipe = load_recipe(name, assignments)
    return recipe.run(folder, resume=resume, source={"recipe": name, "set": list(assignments)}, command=command)


def recipe_of_run(folder: Path) -> Recipe:
    """The recipe that a run was made from."""
    file = folder / "recipe.json"
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        name, assignments = content["recipe"], content["set"]
    except (OSError, ValueError, KeyError) as error:
        raise EngineError(f"{file}: expected the recipe of a run of `equigrad train` ({error!r})") from None
    return load_recipe(name, assignments)


def evaluate_run(folder: Path) -> ClassificationEvaluator:
    """Evaluate the newest weights of a run on its test set, and keep the result in its folder."""
    recipe = recipe_of_run(folder)
    train_set, test_set = recipe.data.load()
    model = recipe.model(train_set)
    model.load_state_dict(load_weights(folder))
    evaluator = recipe.evaluate(model.eval(), train_set, test_set)
    Evaluation.from_rows(evaluator.result(), evaluator.per_category()).save(folder)
    return evaluator
