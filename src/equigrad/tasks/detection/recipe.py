"""The settings of a detection run."""

from dataclasses import dataclass, field
from pathlib import Path

from equigrad.engine import TrainSettings
from equigrad.engine.distributed import Device, Precision
from equigrad.engine.settings import check_positive
from equigrad.tasks.backbones import PyramidBackbone
from equigrad.tasks.detection.data import DetectionSource
from equigrad.tasks.detection.detectors import RCNN, OneStageDetector
from equigrad.tasks.detection.prediction import ShownObjects
from equigrad.tasks.detection.preprocessing import Preprocessing
from equigrad.tasks.detection.second_stages import NewClassifier, NewScales
from equigrad.tasks.methods import DenseMethod, RoIMethod
from equigrad.tasks.samplers import SamplerKind


@dataclass(frozen=True)
class DetectionRecipe:
    """Detection of boxes, and of masks if the detector predicts them.

    Args:
        data: training and test images with annotations.
        preprocessing: sizes and augmentation of the images.
        backbone: the feature pyramid.
        detector: the detector on the pyramid.
        method: loss and scores of the categories.
        training: optimiser, schedule, batches, checkpoints.
        sampler: order of the training images: each once per epoch, those with rare categories repeated, or all
            categories in turn.
        repeat_threshold: share of images below which a category is repeated.
        second_stage: for methods that start from a finished run, which `init` names.
        init: initial weights, a file or the folder of a run; None starts from the backbone's weights. For a second
            stage, the folder of the first run.
        check_images: during training, evaluate only this many images, a fixed random part of the test set, and all of
            them at the end; None always evaluates all.
        test_batch_size: images per batch in the test; more than one is faster if they are small and of one size.
        precision: floating-point precision.
        device: where to run; "auto" uses a GPU if there is one.
        shown: which objects a prediction has, and how many are drawn.
        table: the paper's table with this recipe as a row.
        row: name of that row.
    """

    data: DetectionSource
    preprocessing: Preprocessing
    backbone: PyramidBackbone
    detector: OneStageDetector | RCNN
    method: DenseMethod | RoIMethod
    training: TrainSettings
    sampler: SamplerKind = "random"
    repeat_threshold: float = 0.001
    second_stage: NewClassifier | NewScales | None = None
    init: Path | None = None
    check_images: int | None = None
    test_batch_size: int = 1
    precision: Precision = "32"
    device: Device = "auto"
    shown: ShownObjects = field(default_factory=ShownObjects)
    table: str = ""
    row: str = ""

    def __post_init__(self) -> None:
        if self.check_images is not None and self.check_images < 1:
            raise ValueError(f"check_images must be above 0, got {self.check_images}")
        check_positive("test_batch_size", self.test_batch_size)
        needed = RoIMethod if isinstance(self.detector, RCNN) else DenseMethod
        if not isinstance(self.method, needed):
            detector, method = type(self.detector).__name__, type(self.method).__name__
            raise ValueError(f"{detector} takes a {needed.__name__}, got a {method}")

    @property
    def with_masks(self) -> bool:
        """Whether the detector gives masks besides boxes."""
        return isinstance(self.detector, RCNN) and self.detector.with_masks
