"""A classification recipe: how it is trained, evaluated and used."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils.data import DataLoader

import equigrad
from equigrad.analysis.history import EVALUATION, Evaluation
from equigrad.analysis.pictures.predictions import PredictedImage
from equigrad.analysis.report import write_report
from equigrad.data.images.lists import ImageDataset
from equigrad.engine import EngineError, TrainResult, TrainSettings, launch, train
from equigrad.engine.checkpoint import load_weights
from equigrad.engine.distributed import Precision, best_accelerator
from equigrad.engine.train import Evaluate
from equigrad.evaluation.classification import ClassificationEvaluator
from equigrad.models.classification.classifier import Classifier, build_classifier
from equigrad.recipes.backbones import untrained
from equigrad.recipes.image_data import ImageData, evaluation_transform
from equigrad.recipes.label_predictor import LabelPredictor
from equigrad.recipes.methods import Counts, Method
from equigrad.recipes.top_predictions import FILE as PREDICTIONS
from equigrad.recipes.top_predictions import TopPredictions, save_predictions
from equigrad.recipes.train_and_test import train_and_test, with_weights_of
from equigrad.sampling import ClassBalancedSampler, RepeatFactorSampler, SeededSampler, ShuffledSampler

if TYPE_CHECKING:
    from lightning.fabric import Fabric
    from PIL import Image

REPORT = "report.html"


@dataclass(frozen=True, eq=False)
class ClassificationTest:
    """A finished test, the same on every rank."""

    evaluator: ClassificationEvaluator
    evaluation: Evaluation
    predictions: dict[str, NDArray[Any]]
    class_names: Sequence[str]

    def result(self) -> dict[str, float]:
        """Metrics with the paper's names."""
        return self.evaluator.result()

    def save(self, folder: Path) -> None:
        """Keep it in the run folder, with the page of the run."""
        self.evaluation.save(folder)
        save_predictions(self.predictions, self.class_names, folder)
        write_report([folder], folder / REPORT)


@dataclass(frozen=True)
class ClassificationRecipe:
    """One category an image.

    Args:
        data: training and test images.
        backbone: builds the feature extractor.
        method: loss, scores and sampler.
        training: how long, how fast, in what batches.
        precision: "32", "bf16" or "fp16".
        init: folder of the run that a second stage or a distillation starts from.
        table: of the paper, that the recipe is a row of.
        row: in that table.
    """

    data: ImageData
    backbone: Callable[[], nn.Module]
    method: Method
    training: TrainSettings
    precision: Precision = "32"
    init: Path | None = None
    table: str = ""
    row: str = ""

    def run(self, folder: Path, *, resume: bool, source: dict[str, Any], command: Sequence[str]) -> TrainResult:
        """Train in the run folder; at the end evaluate, keep the predictions and write a page.

        Args:
            folder: of the run.
            resume: go on from its last checkpoint.
            source: what `recipe.json` says about where the recipe is from.
            command: how the run was started.
        """
        fabric = launch(precision=self.precision, seed=self.training.seed)
        train_set, test_set = self.data.load()

        def training(evaluate: Evaluate) -> TrainResult:
            return train(
                fabric,
                self.model(train_set.category_counts),
                train_set,
                self.sampler(train_set),
                self.training,
                folder,
                resume=resume,
                sample_name=train_set.sample_name,
                evaluate=evaluate,
                recipe={**source, "num_classes": len(train_set.class_names), "num_images": len(train_set)},
                command=command,
            )

        return train_and_test(
            fabric,
            folder,
            train=training,
            test=lambda model: self.test(model, train_set, test_set, fabric),
            newest_model=lambda: self.trained_model(train_set.category_counts, folder),
            remove_results=_remove_results,
        )

    def model(self, category_counts: Counts) -> Classifier:
        """The model before its first step."""
        if self.method.needs_init and self.init is None:
            raise EngineError("this recipe starts from a finished run: give its folder with --set init=RUN")
        # Weights from a run replace those of the backbone, unless the run is the teacher.
        reads_weights = self.init is None or self.method.distils
        backbone = self.backbone if reads_weights else untrained(self.backbone)
        return self._assembled(backbone(), category_counts, None if self.init is None else load_weights(self.init))

    def trained_model(self, category_counts: Counts, folder: Path) -> Classifier:
        """The newest model of a run, for evaluation."""
        return with_weights_of(self._assembled(untrained(self.backbone)(), category_counts, None), folder)

    def _assembled(self, backbone: nn.Module, counts: Counts, init: dict[str, torch.Tensor] | None) -> Classifier:
        method = self.method
        model = build_classifier(
            backbone,
            len(counts),
            method.loss(counts),
            method.scores(counts),
            cosine_temperature=method.cosine_temperature,
            bias_prior=method.bias_prior,
        )
        if method.distils:
            model.teacher = self._teacher(len(counts), init)
        elif init is not None:
            _load_features(model, init, self.init)
        if method.second_stage is not None:
            method.second_stage(model)
        return model

    def _teacher(self, num_classes: int, weights: dict[str, torch.Tensor] | None) -> nn.Module:
        teacher = build_classifier(untrained(self.backbone)(), num_classes, nn.Identity(), equigrad.SoftmaxScores())
        if weights is not None:
            _load_features(teacher, weights, self.init)
        return equigrad.FrozenTeacher(nn.Sequential(teacher.backbone, teacher.classifier))

    def sampler(self, train_set: ImageDataset) -> SeededSampler:
        """Order of the training images."""
        labels, seed = torch.as_tensor(train_set.labels), self.training.seed
        if self.method.sampler == "class_balanced":
            # Four at each visit of a category, and epochs that have as many images as there are, as published.
            return ClassBalancedSampler(labels, seed=seed, per_class=4)
        if self.method.sampler == "repeat_factor":
            return RepeatFactorSampler(labels, seed=seed)
        return ShuffledSampler(len(train_set), seed=seed)

    @torch.no_grad()
    def test(
        self, model: nn.Module, train_set: ImageDataset, test_set: ImageDataset, fabric: "Fabric | None" = None
    ) -> ClassificationTest:
        """Predict the whole test set, shared among the ranks so that each image counts once; every rank must call."""
        rank, num_ranks = (fabric.global_rank, fabric.world_size) if fabric is not None else (0, 1)
        share = torch.utils.data.Subset(test_set, range(rank, len(test_set), num_ranks))
        device = next(model.parameters()).device
        evaluator = ClassificationEvaluator(train_set.category_counts, train_set.class_names)
        top = TopPredictions()
        loader: DataLoader[Any] = DataLoader(share, batch_size=256, num_workers=0)
        for images, targets in loader:
            predictions = model(images.to(device))
            evaluator.add(predictions, targets)
            top.add(predictions, targets)
        evaluation = Evaluation.from_rows(evaluator.result(), evaluator.per_category())
        return ClassificationTest(evaluator, evaluation, top.gathered(fabric), train_set.class_names)

    def evaluate_run(self, folder: Path) -> ClassificationEvaluator:
        """Evaluate the newest weights of a run on its test set, and keep what comes out in its folder."""
        train_set, test_set = self.data.load()
        model = self.trained_model(train_set.category_counts, folder).to(best_accelerator())
        tested = self.test(model, train_set, test_set)
        tested.save(folder)
        return tested.evaluator

    def predictor(self, folder: Path) -> "Callable[[Image.Image], PredictedImage]":
        """From an image to what the newest weights of a run say about it; the data set is not needed."""
        if (folder / EVALUATION).exists():
            categories = Evaluation.load(folder).categories
            names = [category.name for category in categories]
            counts = np.array([category.count for category in categories], dtype=np.int64)
        else:  # an interrupted run
            train_set, _ = self.data.load()
            names, counts = list(train_set.class_names), train_set.category_counts
        model = self.trained_model(counts, folder).to(best_accelerator())
        return LabelPredictor(model, evaluation_transform(self.data), names, counts)


def _remove_results(folder: Path) -> None:
    for file in (EVALUATION, PREDICTIONS, REPORT):
        (folder / file).unlink(missing_ok=True)


def _load_features(model: nn.Module, weights: dict[str, torch.Tensor], folder: Path | None) -> None:
    """Take over backbone and classifier of a finished run; its loss and teacher are another's."""
    kept = {name: value for name, value in weights.items() if name.startswith(("backbone.", "classifier."))}
    try:
        missing, unexpected = model.load_state_dict(kept, strict=False)
    except RuntimeError as error:
        raise EngineError(f"{folder} does not fit this recipe: {str(error).splitlines()[-1].strip()}") from error
    lost = [name for name in missing if name.startswith(("backbone.", "classifier."))] + list(unexpected)
    if lost:
        raise EngineError(f"{folder} does not fit this recipe: {lost[0]} and {len(lost) - 1} more have no counterpart")
