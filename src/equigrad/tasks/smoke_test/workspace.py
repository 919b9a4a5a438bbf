"""A folder in which recipes are tried, one after the other; they share data, weights and first stages."""

import contextlib
import io
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from equigrad.engine import TrainSettings
from equigrad.tasks.backbones import without_weights
from equigrad.tasks.classification import run as classification
from equigrad.tasks.classification.recipe import ClassificationRecipe
from equigrad.tasks.detection.recipe import DetectionRecipe
from equigrad.tasks.losses import SoftmaxEql
from equigrad.tasks.run_folder import Recipe, task_of
from equigrad.tasks.segmentation import run as segmentation
from equigrad.tasks.segmentation.recipe import SegmentationRecipe
from equigrad.tasks.smoke_test.generated_images import generated_images
from equigrad.tasks.smoke_test.generated_objects import IMAGE_SIZE, generated_objects
from equigrad.tasks.smoke_test.generated_scenes import generated_scenes
from equigrad.tasks.smoke_test.generated_weights import GeneratedWeights

_NUM_STEPS = 2
_BATCH_SIZE = 4
_DETECTION_BATCH_SIZE = 2  # hundreds of RoIs per image


class Workspace:
    """Tries recipes in a folder.

    Args:
        folder: for all files; the caller removes it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._first_stages: dict[Any, Path] = {}
        self._weights = GeneratedWeights(folder)
        self._num_samples: dict[Any, int] = {}

    def try_recipe(self, recipe: Recipe) -> None:
        """Train for two steps on generated data, evaluate and write the page; raises what the run raises."""
        folder = self.folder / "run"
        try:
            _train(self._shortened(recipe), folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def schedule(self, recipe: Recipe) -> str:
        """Length, batch, learning rate and its course in the real training."""
        num_samples: dict[type[Any], Callable[[Any], int | None]] = {
            ClassificationRecipe: self._classification_samples,
            DetectionRecipe: lambda _: None,  # how many images a sampler repeats depends on the real annotations
            SegmentationRecipe: self._segmentation_samples,
        }
        return describe_schedule(recipe.training, num_samples[type(recipe)](recipe))

    def _shortened(self, recipe: Recipe) -> Recipe:
        """The recipe on generated data, for two steps of a few images."""
        shorten: dict[type[Any], Callable[[Any], Recipe]] = {
            ClassificationRecipe: self._shortened_classification,
            DetectionRecipe: self._shortened_detection,
            SegmentationRecipe: self._shortened_segmentation,
        }
        return shorten[type(recipe)](recipe)

    def _shortened_classification(self, recipe: ClassificationRecipe) -> ClassificationRecipe:
        short = replace(
            recipe,
            data=generated_images(recipe.data, self.folder),
            training=_shortened_training(recipe.training, _BATCH_SIZE),
            backbone=self._weights.instead_of_real(recipe.backbone),
            feature_cache=None if recipe.feature_cache is None else self.folder / "features",
        )
        if not recipe.method.needs_init or recipe.init is not None:
            return short
        # Backbone and classifier are all that a second stage or a student takes from its first stage.
        plain = replace(recipe.method, loss=SoftmaxEql(prior_power=0.0), second_stage=None, sampler="random")
        return replace(short, init=self._first_stage(replace(short, method=plain)))

    def _shortened_segmentation(self, recipe: SegmentationRecipe) -> SegmentationRecipe:
        return replace(
            recipe,
            data=generated_scenes(recipe.data, self.folder),
            training=_shortened_training(recipe.training, _BATCH_SIZE),
            backbone=self._weights.instead_of_real(recipe.backbone),
        )

    def _shortened_detection(self, recipe: DetectionRecipe) -> DetectionRecipe:
        short = replace(
            recipe,
            data=generated_objects(recipe.data, self.folder),
            preprocessing=recipe.preprocessing.at_size(IMAGE_SIZE),
            training=_shortened_training(recipe.training, _DETECTION_BATCH_SIZE),
            backbone=self._weights.instead_of_real(recipe.backbone),
        )
        if recipe.second_stage is None or recipe.init is not None:
            return short
        # Whatever a second stage keeps of its first one fits a run of the same detector.
        return replace(short, init=self._first_stage(replace(short, second_stage=None)))

    def _first_stage(self, recipe: ClassificationRecipe | DetectionRecipe) -> Path:
        """The folder of a run that others start from, made once for each model and data set."""
        detector = recipe.detector if isinstance(recipe, DetectionRecipe) else None
        key = (recipe.data, without_weights(recipe.backbone), detector, recipe.method)  # in whatever file they came
        if key not in self._first_stages:
            folder = self.folder / f"first_stage_{len(self._first_stages)}"
            _train(recipe, folder)
            self._first_stages[key] = folder
        return self._first_stages[key]

    def _classification_samples(self, recipe: ClassificationRecipe) -> int:
        data = generated_images(recipe.data, self.folder)
        key = (data, recipe.method.sampler)
        if key not in self._num_samples:
            train_set, _ = data.load()
            self._num_samples[key] = len(classification.build_sampler(recipe, train_set))
        return self._num_samples[key]

    def _segmentation_samples(self, recipe: SegmentationRecipe) -> int:
        train_set, _ = generated_scenes(recipe.data, self.folder).load()
        return len(segmentation.build_sampler(recipe, train_set))


def describe_schedule(training: TrainSettings, num_samples: int | None = None) -> str:
    """Length, batch, learning rate and its course; steps, for an epoch of this many samples if it is known."""
    optimizer, warmup = training.optimizer, training.schedule.warmup
    parts = [
        training.schedule.describe() + ("" if warmup.length else ", no warm-up"),
        f"batch {training.batch_size}",
        f"{type(optimizer).__name__} lr {optimizer.lr:g}, weight decay {optimizer.weight_decay:g}",
    ]
    if num_samples is not None:
        total = training.schedule.total_steps(-(-num_samples // training.batch_size))
        parts.append(f"{total:,} steps")
    return "; ".join(parts)


def _train(recipe: Recipe, folder: Path) -> None:
    """Train without printing anything."""
    command = ["equigrad", "recipes", "--check"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        result = task_of(recipe).train(recipe, folder, resume=False, source={}, command=command)
    if result.interrupted:
        raise KeyboardInterrupt  # the training itself only stops; here Ctrl-C ends all recipes


def _shortened_training(training: TrainSettings, batch_size: int) -> TrainSettings:
    # A learning rate for hundreds of images would make two steps of four images diverge.
    lr = training.optimizer.lr * batch_size / training.batch_size
    return replace(
        training,
        optimizer=replace(training.optimizer, lr=lr),
        schedule=replace(training.schedule, epochs=None, steps=_NUM_STEPS),
        batch_size=batch_size,
        num_workers=0,
        log_every=1,
    )
