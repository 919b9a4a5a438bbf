"""Recipes tried out before they cost days: two steps of each on generated data, by the code that trains."""

import contextlib
import io
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from equigrad.data.images.lists import ImageDataset
from equigrad.engine import TrainSettings
from equigrad.models.backbones.frozen_norm import FrozenNorm
from equigrad.models.backbones.resnets import TORCHVISION
from equigrad.recipes.backbones import Backbone
from equigrad.recipes.catalogue import Recipe, load_recipe
from equigrad.recipes.detection import DetectionRecipe
from equigrad.recipes.generated_data import generated
from equigrad.recipes.generated_objects import IMAGE_SIZE, generated_objects
from equigrad.recipes.generated_scenes import generated_scenes
from equigrad.recipes.image_data import ImageData
from equigrad.recipes.methods import MethodName
from equigrad.recipes.runs import source_of
from equigrad.recipes.segmentation import SegmentationRecipe
from equigrad.recipes.semantic_segmentation import RESNET_WEIGHTS

_REAL_WEIGHTS = (TORCHVISION, *RESNET_WEIGHTS)
_NUM_STEPS = 2
_BATCH_SIZE = 4
_DETECTION_BATCH_SIZE = 2  # hundreds of RoIs an image


@dataclass(frozen=True)
class Rehearsal:
    """How a recipe did.

    Args:
        name: of the recipe, with what was set.
        schedule: of the real training, on data of the real size.
        seconds: the two steps took, with all around them.
        error: one line if it failed.
    """

    name: str
    schedule: str
    seconds: float
    error: str | None


class Stage:
    """A folder in which recipes are tried, one after the other; they share data, weights and first stages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._train_sets: dict[ImageData, ImageDataset] = {}
        self._first_stages: dict[str, Path] = {}
        self._weights: dict[str, Path] = {}

    def rehearse(self, name: str, assignments: Sequence[str]) -> Rehearsal:
        """Build a recipe, train it for two steps, evaluate it and write its page."""
        start, schedule, error = time.perf_counter(), "", None
        folder = self.folder / "run"
        try:
            recipe = load_recipe(name, assignments)
            schedule = self._schedule(recipe)
            self._run(self._shortened(recipe, name, assignments), name, assignments, folder)
        except Exception as failure:  # whatever it is, the next recipe has its turn
            error = f"{type(failure).__name__}: {' '.join(str(failure).split())}"
        shutil.rmtree(folder, ignore_errors=True)
        return Rehearsal(" ".join([name, *assignments]), schedule, time.perf_counter() - start, error)

    def _schedule(self, recipe: Recipe) -> str:
        if isinstance(recipe, DetectionRecipe):
            return describe(recipe.training)  # the real annotations alone tell how many images a sampler repeats
        if isinstance(recipe, SegmentationRecipe):
            train_set, _ = generated_scenes(recipe.data, self.folder).load()
            return describe(recipe.training, len(recipe.sampler(train_set)))
        data = generated(recipe.data, self.folder)
        if data not in self._train_sets:
            self._train_sets[data], _ = data.load()
        return describe(recipe.training, len(recipe.sampler(self._train_sets[data])))

    def _shortened(self, recipe: Recipe, name: str, assignments: Sequence[str]) -> Recipe:
        """The recipe on generated data, for two steps of a few images."""
        if isinstance(recipe, DetectionRecipe):
            return self._shortened_detection(recipe, name, assignments)
        training, backbone = _shortened_training(recipe.training, _BATCH_SIZE), self._without_download(recipe.backbone)
        if isinstance(recipe, SegmentationRecipe):
            scenes = generated_scenes(recipe.data, self.folder)
            return replace(recipe, data=scenes, training=training, backbone=backbone)
        init = recipe.init
        if recipe.method.needs_init and init is None:
            init = self._first_stage("balanced_softmax" if recipe.method.distils else "ce", name, assignments)
        data = generated(recipe.data, self.folder)
        return replace(recipe, data=data, training=training, backbone=backbone, init=init)

    def _shortened_detection(self, recipe: DetectionRecipe, name: str, assignments: Sequence[str]) -> DetectionRecipe:
        short = replace(
            recipe,
            data=generated_objects(recipe.data, self.folder),
            views=recipe.views.at_size(IMAGE_SIZE),
            training=_shortened_training(recipe.training, _DETECTION_BATCH_SIZE),
            backbone=self._without_download(recipe.backbone),
        )
        if recipe.second_stage is None or recipe.init is not None:
            return short
        # Whatever a second stage keeps of its first one fits a run of the same detector.
        key = repr((short.data, short.backbone, short.detector))
        return replace(short, init=self._kept_run(key, replace(short, second_stage=None), name, assignments))

    def _without_download(self, backbone: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
        if isinstance(backbone, Backbone) and backbone.weights in _REAL_WEIGHTS:
            return replace(backbone, weights=str(self._weights_of(backbone)))
        return backbone

    def _weights_of(self, backbone: Backbone) -> Path:
        """A file as the real one, with weights that keep the signal small in evaluation mode."""
        key = repr(backbone)  # a partial function is like no other, though it shows the same settings
        if key not in self._weights:
            network = backbone.build(weights=None)
            for path, module in network.named_modules():
                if isinstance(module, nn.BatchNorm2d | FrozenNorm) and path.endswith("bn3"):
                    nn.init.zeros_(module.weight)
            self._weights[key] = self.folder / f"weights_{len(self._weights)}.pth"
            torch.save(network.state_dict(), self._weights[key])
        return self._weights[key]

    def _first_stage(self, method: MethodName, name: str, assignments: Sequence[str]) -> Path:
        """The run that a second stage or a distillation of the same benchmark starts from."""
        first = [*(item for item in assignments if not item.startswith("method=")), f"method={method}"]
        recipe = self._shortened(load_recipe(name, first), name, first)
        return self._kept_run(" ".join([name, *first]), recipe, name, first)

    def _kept_run(self, key: str, recipe: Recipe, name: str, assignments: Sequence[str]) -> Path:
        """The folder of a run that others start from, made once."""
        if key not in self._first_stages:
            folder = self.folder / f"first_stage_{len(self._first_stages)}"
            self._run(recipe, name, assignments, folder)
            self._first_stages[key] = folder
        return self._first_stages[key]

    def _run(self, recipe: Recipe, name: str, assignments: Sequence[str], folder: Path) -> None:
        command = ["equigrad", "recipes", "--check", name]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            result = recipe.run(folder, resume=False, source=source_of(name, assignments), command=command)
        if result.interrupted:
            raise KeyboardInterrupt  # the training obeys Ctrl-C in its own way; here it ends the rehearsal


def _shortened_training(training: TrainSettings, batch_size: int) -> TrainSettings:
    # The learning rate of hundreds of images would break a model in two steps of four.
    lr = training.optimizer.lr * batch_size / training.batch_size
    return replace(
        training,
        optimizer=replace(training.optimizer, lr=lr),
        schedule=replace(training.schedule, epochs=None, steps=_NUM_STEPS),
        batch_size=batch_size,
        num_workers=0,
        log_every=1,
    )


def describe(training: TrainSettings, num_samples: int | None = None) -> str:
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
