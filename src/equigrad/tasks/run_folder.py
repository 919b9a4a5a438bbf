"""From a recipe to a run folder, and back from the folder to its recipe and task.

A run folder is data: its recipe is rebuilt from the settings in `recipe.json`, and nothing that the file names is
imported or called.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Protocol

import torch

from equigrad.engine import EngineError, TrainResult, latest_checkpoint, load_checkpoint
from equigrad.engine.distributed import best_accelerator, join_ranks, ranks, wait_for_ranks
from equigrad.engine.run_lock import check_not_in_use, run_lock
from equigrad.engine.run_log import check_run_folder
from equigrad.files import write_atomically
from equigrad.run_files import BEST, CHECKPOINTS, METRICS, RECIPE, STATISTICS, checkpoint_file, read_recipe
from equigrad.settings import from_json, to_json
from equigrad.tasks.classification import run as classification
from equigrad.tasks.classification.recipe import ClassificationRecipe
from equigrad.tasks.detection import run as detection
from equigrad.tasks.detection.recipe import DetectionRecipe
from equigrad.tasks.prediction import Predictor
from equigrad.tasks.results import EvaluationResult
from equigrad.tasks.segmentation import run as segmentation
from equigrad.tasks.segmentation.recipe import SegmentationRecipe
from equigrad.tasks.trained_model import TrainedModel

Recipe = ClassificationRecipe | DetectionRecipe | SegmentationRecipe


class Task(Protocol):
    """What the module `run` of each task offers."""

    def train(
        self, recipe: Any, folder: Path, *, resume: bool, source: Mapping[str, Any], command: Sequence[str]
    ) -> TrainResult:
        """Train in the run folder, evaluate and keep the results."""
        ...

    def evaluate(self, recipe: Any, folder: Path, weights: Path | None = None) -> EvaluationResult:
        """Evaluate the newest weights of a run, or of another one, and keep the results in its folder."""
        ...

    def predictor(self, recipe: Any, folder: Path) -> Predictor:
        """A predictor with the newest weights of a run, on the CPU."""
        ...


_TASKS: dict[type[Any], Task] = {
    ClassificationRecipe: classification,
    DetectionRecipe: detection,
    SegmentationRecipe: segmentation,
}


def task_of(recipe: Recipe) -> Task:
    """The task of a recipe."""
    return _TASKS[type(recipe)]


def recipe_of_run(folder: Path) -> Recipe:
    """The recipe of a run, from the settings in its folder alone."""
    try:
        recipe: Recipe = from_json(Recipe, read_recipe(folder)["settings"])
    except ValueError as error:
        raise EngineError(f"{folder / RECIPE}: {error}") from None
    return recipe


def trained_model(folder: Path, recipe: Recipe, device: str | torch.device | None = None) -> TrainedModel:
    """The newest model of a run, on a GPU if there is one and no device is given."""
    return TrainedModel(task_of(recipe).predictor(recipe, folder), recipe).to(device or best_accelerator())


def evaluate_run(folder: Path, recipe: Recipe, command: Sequence[str]) -> EvaluationResult:
    """Evaluate the newest weights of a run, and keep the results in its folder; not while it is being trained.

    Under torchrun every rank calls this and the following function; the first one writes.
    """
    join_ranks()
    with run_lock(folder, command) if ranks()[0] == 0 else nullcontext():
        wait_for_ranks()
        return task_of(recipe).evaluate(recipe, folder)


def evaluate_variant(
    folder: Path, recipe: Recipe, output: Path, command: Sequence[str], *, best: bool = False
) -> EvaluationResult:
    """Evaluate weights of a run by a changed recipe, such as NorCal those of a run with CE, or its best weights.

    Args:
        folder: the run folder, which is not changed.
        recipe: the changed one.
        output: becomes a run folder with the history and the weights of the first, for `report` and other commands.
        command: how the evaluation was started.
        best: weights of the best evaluation, which `training.keep_best` keeps; else the newest.
    """
    join_ranks()
    if best and ranks()[1] > 1:
        raise EngineError("--best is evaluated by one process: start it without torchrun")
    if ranks()[0] != 0:
        wait_for_ranks()
        # Without a shared file system this rank has the weights in the folder of the run only.
        return task_of(recipe).evaluate(recipe, output, folder)
    check_not_in_use(folder)
    checkpoint, step = _best_checkpoint(folder) if best else _newest_checkpoint(folder)
    content = {**read_recipe(folder), "settings": to_json(recipe)}
    with run_lock(output, command):
        check_run_folder(output, resume=False)
        try:
            (output / CHECKPOINTS).mkdir(exist_ok=True)
            shutil.copy(checkpoint, checkpoint_file(output, step))
            for name in (METRICS, STATISTICS):
                if (folder / name).exists():
                    shutil.copy(folder / name, output)
            write_atomically(output / RECIPE, (json.dumps(content, indent=1) + "\n").encode())
            wait_for_ranks()
            return task_of(recipe).evaluate(recipe, output)
        except BaseException:  # an incomplete run folder would block the next attempt
            shutil.rmtree(output, ignore_errors=True)
            raise


def _newest_checkpoint(folder: Path) -> tuple[Path, int]:
    found = latest_checkpoint(folder)
    if found is None:
        raise EngineError(f"{folder} has no checkpoint to load")
    file, content = found
    return file, _step_in(file, content)


def _best_checkpoint(folder: Path) -> tuple[Path, int]:
    file = folder / BEST
    if not file.is_file():
        raise EngineError(f"{folder} has no {BEST}: train with --set training.keep_best=true to keep it")
    return file, _step_in(file, load_checkpoint(file))


def _step_in(file: Path, content: Mapping[str, Any]) -> int:
    step = content.get("step")
    if not isinstance(step, int) or step < 0:
        raise EngineError(f"{file} is not a checkpoint of a run: it has no step")
    return step
