"""The settings of an image classification run."""

from dataclasses import dataclass
from pathlib import Path

from equigrad.engine import TrainSettings
from equigrad.engine.distributed import Device, Precision
from equigrad.tasks.backbones import ClassificationBackbone
from equigrad.tasks.classification.data import ImageData
from equigrad.tasks.methods import Method


@dataclass(frozen=True)
class ClassificationRecipe:
    """One category an image.

    Args:
        data: training and test images.
        backbone: the feature extractor.
        method: loss, scores and sampler.
        training: how long, how fast, in what batches.
        precision: of the arithmetic.
        device: where it runs; "auto" takes a GPU if there is one.
        init: folder of the run that a second stage or a distillation starts from.
        table: of the paper, that the recipe is a row of.
        row: in that table.
    """

    data: ImageData
    backbone: ClassificationBackbone
    method: Method
    training: TrainSettings
    precision: Precision = "32"
    device: Device = "auto"
    init: Path | None = None
    table: str = ""
    row: str = ""
