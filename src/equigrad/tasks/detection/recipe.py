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
    """Boxes of objects, and their masks where the detector gives them.

    Args:
        data: training and test images with annotations.
        preprocessing: sizes and augmentation of what the detector sees.
        backbone: the feature pyramid.
        detector: the detector on the pyramid.
        method: loss and scores of the categories.
        training: optimiser, schedule, batches, checkpoints.
        sampler: order of the training images: each once an epoch, those with rare categories repeated, or all
            categories in turn.
        repeat_threshold: of repeated images: share of images below which a category is rare.
        second_stage: for methods that start from a finished run, which `init` names.
        init: weights to start from, a file or the folder of a run; None is the backbone's. For a second stage the
            folder of the run before.
        check_images: while it trains, evaluate a fixed, random part of the test set of so many images, and the whole
            only at the end; None always evaluates the whole.
        test_batch_size: images at once in the test; more than one is faster where they are small and of one size.
        precision: of the arithmetic.
        device: where it runs; "auto" takes a GPU if there is one.
        shown: which objects predictions have, and how many are drawn.
        table: table of the paper that has this recipe as a row.
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
