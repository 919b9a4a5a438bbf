"""The settings of an image classification run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from equigrad.engine import TrainSettings
from equigrad.engine.distributed import Device, Precision
from equigrad.engine.settings import check_positive
from equigrad.tasks.backbones import ClassificationBackbone
from equigrad.tasks.classification.data import ImageData, ManyLabels
from equigrad.tasks.losses import Efl, FocalEql, SigmoidEql
from equigrad.tasks.methods import Method


@dataclass(frozen=True)
class ClassificationRecipe:
    """Classification: one category per image, or several if the data has them.

    Args:
        data: training and test images.
        backbone: the feature extractor.
        method: loss, scores and sampler.
        training: optimiser, schedule, batches, checkpoints.
        test_batch_size: images per batch in the test.
        precision: floating-point precision.
        device: where to run; "auto" uses a GPU if there is one.
        shot_groups: limits of the many-, medium- and few-shot groups: "code" as in the published evaluation (> 100,
            20 to 100, < 20), or "paper" as in its text (>= 100, between, <= 20).
        feature_cache: folder for the features of a frozen backbone, which are computed once, without augmentation; None
            computes them at each step.
        init: initial weights, a file or the folder of a run; for a second stage or a distillation, the folder of the
            first run.
        table: the paper's table with this recipe as a row.
        row: name of that row.
    """

    data: ImageData
    backbone: ClassificationBackbone
    method: Method
    training: TrainSettings
    test_batch_size: int = 256
    precision: Precision = "32"
    device: Device = "auto"
    shot_groups: Literal["code", "paper"] = "code"
    feature_cache: Path | None = None
    init: Path | None = None
    table: str = ""
    row: str = ""

    def __post_init__(self) -> None:
        check_positive("test_batch_size", self.test_batch_size)
        if self.is_multi_label and not isinstance(self.method.loss, SigmoidEql | Efl | FocalEql):
            raise ValueError(
                f"images with several categories need a sigmoid loss, got {type(self.method.loss).__name__}: "
                "--method bce, sigmoid_eql, fl, fl_eql or efl"
            )
        if self.feature_cache is None:
            return
        if "backbone" not in self.training.frozen:
            raise ValueError("feature_cache needs a backbone that does not change: --set training.frozen=backbone")
        if self.method.distils:
            raise ValueError("feature_cache has no images for the teacher of a distillation; take another method")

    @property
    def is_multi_label(self) -> bool:
        """Whether an image may have any number of categories."""
        return isinstance(self.data, ManyLabels)
