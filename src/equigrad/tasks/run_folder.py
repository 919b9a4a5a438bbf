"""From a recipe to a run folder, and back from the folder to its recipe and task.

A run folder is data: its recipe is rebuilt from the settings in `recipe.json`, and nothing that the file names is
imported or called.
"""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from equigrad.engine import EngineError, TrainResult, latest_checkpoint
from equigrad.engine.run_lock import check_not_in_use, run_lock
from equigrad.engine.run_log import check_run_folder, read_recipe
from equigrad.files import write_atomically
from equigrad.run_files import CHECKPOINTS, METRICS, RECIPE, STATISTICS
from equigrad.settings import from_json, to_json
from equigrad.tasks.classification import run as classification
from equigrad.tasks.classification.recipe import ClassificationRecipe
from equigrad.tasks.detection import run as detection
from equigrad.tasks.detection.recipe import DetectionRecipe
from equigrad.tasks.results import EvaluationResult
from equigrad.tasks.segmentation import run as segmentation
from equigrad.tasks.segmentation.recipe import SegmentationRecipe

if TYPE_CHECKING:
    from PIL import Image

    from equigrad.analysis.pictures.predictions import PredictedImage

Recipe = ClassificationRecipe | DetectionRecipe | SegmentationRecipe


class Task(Protocol):
    """What the module `run` of each task offers."""

    def train(
        self, recipe: Any, folder: Path, *, resume: bool, source: Mapping[str, Any], command: Sequence[str]
    ) -> TrainResult:
        """Train in the run folder, evaluate and keep the results."""
        ...

    def evaluate(self, recipe: Any, folder: Path) -> EvaluationResult:
        """Evaluate the newest weights of a run on its test set, and keep the results in its folder."""
        ...

    def predictor(self, recipe: Any, folder: Path) -> "Callable[[Image.Image], PredictedImage]":
        """From an image to what the newest weights of a run say about it."""
        ...


_TASKS: dict[type[Any], Task] = {
    ClassificationRecipe: classification,
    DetectionRecipe: detection,
    SegmentationRecipe: segmentation,
}


def task_of(recipe: Recipe) -> Task:
    """The task that a recipe holds the settings of."""
    return _TASKS[type(recipe)]


def recipe_of_run(folder: Path) -> Recipe:
    """The recipe of a run, from the settings in its folder alone."""
    try:
        recipe: Recipe = from_json(Recipe, read_recipe(folder)["settings"])
    except ValueError as error:
        raise EngineError(f"{folder / RECIPE}: {error}") from None
    return recipe


def evaluate_run(folder: Path, recipe: Recipe, command: Sequence[str]) -> EvaluationResult:
    """Evaluate the newest weights of a run, and keep the results in its folder; not while it is being trained."""
    with run_lock(folder, command):
        return task_of(recipe).evaluate(recipe, folder)


def evaluate_variant(folder: Path, recipe: Recipe, output: Path, command: Sequence[str]) -> EvaluationResult:
    """Evaluate the newest weights of a run by a changed recipe, such as NorCal those of a run with CE.

    Args:
        folder: of the run, which stays as it is.
        recipe: the changed one.
        output: becomes a run folder with the history and the weights of the first, for all that is done with runs.
        command: how the evaluation was started.
    """
    check_not_in_use(folder)
    found = latest_checkpoint(folder)
    if found is None:
        raise EngineError(f"{folder} has no checkpoint to load")
    checkpoint, _ = found
    content = {**read_recipe(folder), "settings": to_json(recipe)}
    with run_lock(output, command):
        check_run_folder(output, resume=False)
        try:
            (output / CHECKPOINTS).mkdir(exist_ok=True)
            shutil.copy(checkpoint, output / CHECKPOINTS)
            for name in (METRICS, STATISTICS):
                if (folder / name).exists():
                    shutil.copy(folder / name, output)
            write_atomically(output / RECIPE, (json.dumps(content, indent=1) + "\n").encode())
            return task_of(recipe).evaluate(recipe, output)
        except BaseException:  # half a run would be in the way of the next try
            shutil.rmtree(output, ignore_errors=True)
            raise
