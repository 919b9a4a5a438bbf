"""A recipe of detection or instance segmentation: how it is trained, evaluated and used."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset

from equigrad.analysis.pictures.predictions import PredictedImage
from equigrad.data.detection.dataset import DetectionDataset
from equigrad.data.detection.mosaic import TransformedDataset
from equigrad.engine import EngineError, TrainResult, TrainSettings, launch, train
from equigrad.engine.checkpoint import load_weights
from equigrad.engine.distributed import Precision, best_accelerator
from equigrad.engine.loading import leave_signals_to_the_training
from equigrad.engine.train import Evaluate
from equigrad.recipes.backbones import untrained
from equigrad.recipes.detection_data import DetectionSets, DetectionSource, Evaluator, IouTypes
from equigrad.recipes.detection_predictor import DetectionPredictor, ShownObjects
from equigrad.recipes.detection_results import PREDICTIONS, DetectionTest, remove_results
from equigrad.recipes.detection_views import Views
from equigrad.recipes.detections_on_file import on_file
from equigrad.recipes.sign_of_life import watched
from equigrad.recipes.train_and_test import train_and_test, with_weights_of
from equigrad.recipes.trained_categories import CATEGORIES, TrainedCategories
from equigrad.sampling import ClassBalancedSampler, RepeatFactorSampler, SeededSampler, ShuffledSampler
from equigrad.sampling.presence import CategoryPresence

if TYPE_CHECKING:
    from lightning.fabric import Fabric
    from PIL import Image

Weights = dict[str, Tensor]
SamplerKind = Literal["random", "repeat_factor", "class_balanced"]


class Detector(Protocol):
    """Builds a detector on a pyramid, with the losses and scores of a method."""

    @property
    def with_masks(self) -> bool:
        """Whether it gives masks besides boxes."""
        ...

    def __call__(self, pyramid: nn.Module, categories: TrainedCategories) -> nn.Module:
        """The model before its first step."""
        ...


class SecondStage(Protocol):
    """Makes a detector of a finished run into what is trained now."""

    def load(self, model: nn.Module, weights: Weights) -> None:
        """Take over what is kept of the finished run; ValueError if it does not fit."""
        ...

    def change(self, model: nn.Module) -> None:
        """Replace and freeze parts."""
        ...


@dataclass(frozen=True)
class DetectionRecipe:
    """Boxes of objects, and their masks where the detector gives them.

    Args:
        data: training and test images with annotations.
        views: how the detector sees them.
        backbone: builds the pyramid.
        detector: builds the rest on it.
        training: how long, how fast, in what batches.
        sampler: order of the training images: each once an epoch, those with rare categories repeated, or all
            categories in turn.
        repeat_threshold: of repeated images: share of images below which a category is rare.
        second_stage: for methods that start from a finished run, which `init` names.
        init: folder of that run.
        test_batch_size: images at once in the test; more than one is faster where they are small and of one size.
        precision: "32", "bf16" or "fp16".
        shown: which objects `equigrad predict` draws.
        table: of the paper, that the recipe is a row of.
        row: in that table.
    """

    data: DetectionSource
    views: Views
    backbone: Callable[[], nn.Module]
    detector: Detector
    training: TrainSettings
    sampler: SamplerKind = "random"
    repeat_threshold: float = 0.001
    second_stage: SecondStage | None = None
    init: Path | None = None
    test_batch_size: int = 1
    precision: Precision = "32"
    shown: ShownObjects = field(default_factory=ShownObjects)
    table: str = ""
    row: str = ""

    def run(self, folder: Path, *, resume: bool, source: dict[str, Any], command: Sequence[str]) -> TrainResult:
        """Train in the run folder; at the end evaluate, keep what came out and write a page.

        Args:
            folder: of the run.
            resume: go on from its last checkpoint.
            source: what `recipe.json` says about where the recipe is from.
            command: how the run was started.
        """
        fabric = launch(precision=self.precision, seed=self.training.seed)
        sets = self.load()
        categories = TrainedCategories.of(sets.train.data)
        if fabric.is_global_zero:
            print(sets.train.describe(), flush=True)

        def training(evaluate: Evaluate) -> TrainResult:
            return train(
                fabric,
                self.model(categories),
                self.views.training(sets.train),
                self.order(sets.train),
                self.training,
                folder,
                resume=resume,
                collate=self.views.collate(),
                sample_name=sets.train.sample_name,
                evaluate=evaluate,
                recipe={**source, "num_classes": len(categories), "num_images": len(sets.train)},
                command=command,
            )

        def test(model: nn.Module) -> DetectionTest:
            if fabric.is_global_zero:
                categories.save(folder)
            return self.test(model, sets, folder / PREDICTIONS, fabric)

        return train_and_test(
            fabric,
            folder,
            train=training,
            test=test,
            newest_model=lambda: self.trained_model(categories, folder),
            remove_results=remove_results,
        )

    def load(self) -> DetectionSets:
        """Training and test set."""
        return self.data.load(with_masks=self.detector.with_masks)

    def model(self, categories: TrainedCategories) -> nn.Module:
        """The model before its first step."""
        if self.second_stage is None:
            return self.detector(self.backbone(), categories)
        if self.init is None:
            raise EngineError("this recipe starts from a finished run: give its folder with --set init=RUN")
        model = self.detector(untrained(self.backbone)(), categories)
        try:
            self.second_stage.load(model, load_weights(self.init))
        except (ValueError, RuntimeError) as error:
            raise EngineError(f"{self.init} does not fit this recipe: {str(error).splitlines()[-1].strip()}") from error
        self.second_stage.change(model)
        return model

    def trained_model(self, categories: TrainedCategories, folder: Path) -> nn.Module:
        """The newest model of a run, for evaluation."""
        model = self.detector(untrained(self.backbone)(), categories)
        if self.second_stage is not None:
            self.second_stage.change(model)
        return with_weights_of(model, folder)

    def order(self, train_set: DetectionDataset) -> SeededSampler:
        """Order of the training images."""
        if self.sampler == "random":
            return ShuffledSampler(len(train_set), seed=self.training.seed)
        images, labels = (torch.from_numpy(column) for column in train_set.presence)
        presence = CategoryPresence(images, labels, len(train_set), train_set.data.num_classes)
        if self.sampler == "class_balanced":
            return ClassBalancedSampler(presence, seed=self.training.seed)
        return RepeatFactorSampler(presence, threshold=self.repeat_threshold, seed=self.training.seed)

    @torch.no_grad()
    def test(
        self, model: nn.Module, sets: DetectionSets, folder: Path, fabric: "Fabric | None" = None
    ) -> DetectionTest:
        """Detect in the whole test set, shared among the ranks so that each image counts once; every rank must call.

        Args:
            model: in evaluation mode.
            sets: with the test set.
            folder: for predictions.
            fabric: of the run; None is one process.
        """
        rank, num_ranks = (fabric.global_rank, fabric.world_size) if fabric is not None else (0, 1)
        share = range(rank, len(sets.test), num_ranks)
        evaluator = sets.evaluator(folder, self._iou_types())
        loader: DataLoader[Any] = DataLoader(
            Subset(TransformedDataset(sets.test, self.views.testing()), share),  # type: ignore[arg-type]
            batch_size=self.test_batch_size,
            collate_fn=self.views.collate(),
            num_workers=self.training.num_workers,
            worker_init_fn=leave_signals_to_the_training,
        )
        device = next(model.parameters()).device
        batches = watched(loader, len(share)) if rank == 0 else loader
        for images, targets in batches:
            predictions = model(images.to(device), targets)
            evaluator.add([on_file(*pair) for pair in zip(predictions, targets, strict=True)], targets)
        return DetectionTest.of(evaluator)

    def _iou_types(self) -> IouTypes:
        return ("bbox", "segm") if self.detector.with_masks else ("bbox",)

    def evaluate_run(self, folder: Path) -> Evaluator:
        """Evaluate the newest weights of a run on its test set, and keep what comes out in its folder."""
        sets = self.load()
        categories = TrainedCategories.of(sets.train.data)
        model = self.trained_model(categories, folder).to(best_accelerator())
        tested = self.test(model, sets, folder / PREDICTIONS)
        categories.save(folder)
        tested.save(folder)
        return tested.evaluator

    def predictor(self, folder: Path) -> "Callable[[Image.Image], PredictedImage]":
        """From an image to what the newest weights of a run see in it."""
        # The data set is only needed for a run that was interrupted before its first test.
        is_known = (folder / CATEGORIES).exists()
        categories = TrainedCategories.load(folder) if is_known else TrainedCategories.of(self.load().train.data)
        model = self.trained_model(categories, folder).to(best_accelerator())
        return DetectionPredictor(model, categories, self.views.testing(), self.views.collate(), self.shown)
