"""A classification recipe, and how it is trained and evaluated."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.data import DataLoader

import equigrad
from equigrad.data.image_lists import ImageDataset
from equigrad.engine import EngineError, TrainResult, TrainSettings, launch, train
from equigrad.engine.checkpoint import load_weights
from equigrad.engine.distributed import Precision
from equigrad.evaluation.classification import ClassificationEvaluator
from equigrad.models.classification import Classifier, build_classifier
from equigrad.recipes.image_data import ImageData
from equigrad.recipes.methods import Method
from equigrad.sampling import ClassBalancedSampler, RepeatFactorSampler, ResumableSampler, ShuffledSampler

if TYPE_CHECKING:
    from lightning.fabric import Fabric


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
        """Train in the run folder and evaluate at the end; `source` says in `recipe.json` where the recipe is from."""
        fabric = launch(precision=self.precision, seed=self.training.seed)
        train_set, test_set = self.data.load()
        model = self.model(train_set)
        return train(
            fabric,
            model,
            train_set,
            self.sampler(train_set),
            self.training,
            folder,
            resume=resume,
            sample_name=train_set.sample_name,
            evaluate=lambda model, step: self.evaluate(model, train_set, test_set, fabric).result(),
            recipe={**source, "num_classes": len(train_set.class_names), "num_images": len(train_set)},
            command=command,
        )

    def model(self, train_set: ImageDataset) -> Classifier:
        """The model before its first step."""
        counts, method = train_set.category_counts, self.method
        if method.needs_init and self.init is None:
            raise EngineError("this recipe starts from a finished run: give its folder with --set init=RUN")
        model = build_classifier(
            self.backbone(),
            len(counts),
            method.loss(counts),
            method.scores(counts),
            cosine_temperature=method.cosine_temperature,
            bias_prior=method.bias_prior,
        )
        if self.init is None:
            return model
        weights = load_weights(self.init)
        if method.distils:
            model.teacher = self._teacher(len(counts), weights)
            return model
        _load_features(model, weights, self.init)
        if method.second_stage is not None:
            method.second_stage(model)
        return model

    def _teacher(self, num_classes: int, weights: dict[str, torch.Tensor]) -> nn.Module:
        teacher = build_classifier(self.backbone(), num_classes, nn.Identity(), equigrad.SoftmaxScores())
        _load_features(teacher, weights, self.init)
        return equigrad.FrozenTeacher(nn.Sequential(teacher.backbone, teacher.classifier))

    def sampler(self, train_set: ImageDataset) -> ResumableSampler:
        """Order of the training images."""
        labels, seed = torch.as_tensor(train_set.labels), self.training.seed
        if self.method.sampler == "class_balanced":
            return ClassBalancedSampler(labels, seed=seed, per_class=4)
        if self.method.sampler == "repeat_factor":
            return RepeatFactorSampler(labels, seed=seed)
        return ShuffledSampler(len(train_set), seed=seed)

    @torch.no_grad()
    def evaluate(
        self, model: nn.Module, train_set: ImageDataset, test_set: ImageDataset, fabric: "Fabric | None" = None
    ) -> ClassificationEvaluator:
        """Predictions of the whole test set, shared among the ranks, and what they are worth."""
        rank, num_ranks = (fabric.global_rank, fabric.world_size) if fabric is not None else (0, 1)
        share = torch.utils.data.Subset(test_set, range(rank, len(test_set), num_ranks))
        device = next(model.parameters()).device
        evaluator = ClassificationEvaluator(train_set.category_counts, train_set.class_names)
        loader: DataLoader[Any] = DataLoader(share, batch_size=256, num_workers=0)
        for images, targets in loader:
            evaluator.add(model(images.to(device)), targets)
        return evaluator


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
