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
    """One category an image, or several where the data has them.

    Args:
        data: training and test images.
        backbone: the feature extractor.
        method: loss, scores and sampler.
        training: optimiser, schedule, batches, checkpoints.
        test_batch_size: images at once in the test.
        precision: of the arithmetic.
        device: where it runs; "auto" takes a GPU if there is one.
        shot_groups: limits of many, medium and few: "code" as in the published evaluation (> 100, 20 to 100, < 20), or
            "paper" as in its text (>= 100, between, <= 20).
        feature_cache: folder of features of a frozen backbone, which are computed once, without random crops; None
            computes them at each step.
        init: weights to start from, a file or the folder of a run; for a second stage or a distillation, the folder of
            the run before.
        table: table of the paper that has this recipe as a row.
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
