"""What the runs of a table need before they start: files, weights, and an estimate of GPU hours with its arithmetic."""

from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.utils.flop_counter import FlopCounterMode

from equigrad.data.images.stores import store_exists
from equigrad.data.published_totals import PUBLISHED_SETS
from equigrad.models.backbones import PACKAGE, TORCHVISION
from equigrad.tasks.backbones import Backbone, without_weights
from equigrad.tasks.classification.data import PublishedImages
from equigrad.tasks.classification.recipe import ClassificationRecipe
from equigrad.tasks.detection.data import CocoFiles
from equigrad.tasks.detection.preprocessing import Mosaics, ShorterSide
from equigrad.tasks.detection.recipe import DetectionRecipe
from equigrad.tasks.paper_tables.planning import PlannedRun
from equigrad.tasks.run_folder import Recipe

PEAK_FLOPS = 156e12
"""Of an A100 with TF32, as its data sheet has it."""
UTILISATION = 0.3
"""Share of the peak that is assumed; small layers, heads and the optimiser keep a training below it."""
_PASSES = 3  # forward, and twice as much backward

_BENCHMARKS = {"imagenet_lt": "ImageNet-LT", "places_lt": "Places-LT", "inaturalist18": "iNaturalist 2018"}


class Needs(NamedTuple):
    """What runs need.

    Args:
        files: folders and files of data, with the setting that names each.
        weights: files of pretrained weights, and words such as "torchvision".
        gpu_hours: estimate, of all runs.
        arithmetic: how the estimate of each kind of run is computed.
    """

    files: dict[Path, str]
    weights: list[str]
    gpu_hours: float
    arithmetic: list[str]

    @property
    def missing(self) -> list[Path]:
        """Data and files of weights that are not there."""
        weights = [Path(name) for name in self.weights if name not in (PACKAGE, TORCHVISION)]
        return [file for file in (*self.files, *weights) if not store_exists(file)]


def needs_of(runs: Sequence[PlannedRun]) -> Needs:
    """What these runs need together."""
    recipes = [run.recipe for run in runs]
    files = {path: f"data.{name}" for recipe in recipes for name, path in _data_paths(recipe.data)}
    weights = {str(found) for recipe in recipes if (found := getattr(recipe.backbone, "weights", None)) is not None}
    lines: dict[str, int] = {}
    hours = 0.0
    for run in runs:
        if not run.is_reading:
            line, added = _estimate(run.recipe)
            lines[line] = lines.get(line, 0) + 1
            hours += added
    arithmetic = [f"{number} x {line}" for line, number in lines.items()]
    return Needs(dict(sorted(files.items())), sorted(weights), hours, arithmetic)


def _data_paths(data: Any) -> list[tuple[str, Path]]:
    found = ((field.name, getattr(data, field.name)) for field in fields(data))
    return [(name, value) for name, value in found if isinstance(value, Path)]


def _estimate(recipe: Recipe) -> tuple[str, float]:
    """Images times floating-point operations over what a GPU sustains."""
    num_images, height, width = _num_images(recipe), *_image_size(recipe)
    flops = _flops(without_weights(recipe.backbone), height, width)
    hours = num_images * _PASSES * flops / (PEAK_FLOPS * UTILISATION) / 3600
    text = f"{num_images:,} images x {_PASSES} x {flops / 1e9:.0f} GFLOP ({height} x {width}): {hours:.1f} h"
    return text, hours


def _num_images(recipe: Recipe) -> int:
    """That a training sees; repeated images are not counted."""
    schedule = recipe.training.schedule
    if schedule.steps is not None:
        return schedule.steps * recipe.training.batch_size
    assert schedule.epochs is not None
    return round(schedule.epochs * _training_images(recipe.data))


def _training_images(data: Any) -> int:
    if isinstance(data, PublishedImages):
        name = f"{_BENCHMARKS[data.benchmark]} train"
    elif isinstance(data, CocoFiles):
        name = "LVIS v1 train" if data.benchmark == "lvis" else "COCO 2017 train"
    else:
        raise ValueError(f"no published total of {type(data).__name__}")
    return next(published.num_images for published in PUBLISHED_SETS if published.name == name)


def _image_size(recipe: Recipe) -> tuple[int, int]:
    """Height and width of what the network sees, rounded up to its stride."""
    if isinstance(recipe, ClassificationRecipe):
        size = getattr(recipe.data, "size", 224)
        return size, size
    if not isinstance(recipe, DetectionRecipe):
        size = getattr(recipe.data, "crop_size", 512)
        return size, size
    if isinstance(recipe.preprocessing, Mosaics):
        return recipe.preprocessing.size, recipe.preprocessing.size
    assert isinstance(recipe.preprocessing, ShorterSide)
    return tuple(-(-side // 32) * 32 for side in (recipe.preprocessing.test_short, recipe.preprocessing.long))  # type: ignore[return-value]


@cache
def _flops(backbone: Backbone, height: int, width: int) -> int:
    """Of the backbone and its pyramid for one image, forward; heads are not counted."""
    with torch.device("meta"):
        network = backbone.build().eval()
        images = torch.empty(1, 3, height, width)
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        network(images)
    return int(counter.get_total_flops())
