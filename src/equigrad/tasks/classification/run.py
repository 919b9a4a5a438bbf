"""A run of image classification, read from top to bottom: data, model, training, evaluation, results."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset

import equigrad
from equigrad.analysis.history import Evaluation
from equigrad.analysis.pictures.predictions import PredictedImage
from equigrad.data.frequency import Counts
from equigrad.data.images.lists import ImageDataset
from equigrad.engine import EngineError, Training, TrainResult, launch
from equigrad.engine.checkpoint import load_weights
from equigrad.engine.distributed import best_accelerator
from equigrad.evaluation.classification import ClassificationEvaluator
from equigrad.models.classification.classifier import Classifier, build_classifier
from equigrad.run_files import EVALUATION
from equigrad.sampling import ClassBalancedSampler, RepeatFactorSampler, ShuffledSampler
from equigrad.tasks.backbones import without_weights
from equigrad.tasks.classification.predictor import LabelPredictor
from equigrad.tasks.classification.recipe import ClassificationRecipe
from equigrad.tasks.classification.top_predictions import TopPredictions
from equigrad.tasks.losses import CategoryCounts
from equigrad.tasks.results import EvaluationResult, remove_results
from equigrad.tasks.samplers import Sampler
from equigrad.tasks.weights import with_weights_of

if TYPE_CHECKING:
    from lightning.fabric import Fabric
    from PIL import Image


def train(
    recipe: ClassificationRecipe, folder: Path, *, resume: bool, source: Mapping[str, Any], command: Sequence[str]
) -> TrainResult:
    """Train in the run folder; at the end evaluate, keep the predictions and write the page of the run.

    Args:
        recipe: the settings.
        folder: of the run.
        resume: go on from its last checkpoint.
        source: what `recipe.json` says about the recipe.
        command: how the run was started.
    """
    fabric = launch(precision=recipe.precision, seed=recipe.training.seed, accelerator=recipe.device)
    train_set, test_set = recipe.data.load()
    model = build_model(recipe, train_set.category_counts)
    sampler = build_sampler(recipe, train_set)
    result = None
    with Training(
        fabric,
        model,
        train_set,
        sampler,
        recipe.training,
        folder,
        resume=resume,
        sample_name=train_set.sample_name,
        recipe={**source, "num_classes": len(train_set.class_names), "num_images": len(train_set)},
        command=command,
    ) as training:
        while training.run_to_evaluation():
            with training.evaluation_model() as evaluated:
                result = evaluate_model(evaluated, train_set, test_set, fabric)
            training.log_evaluation(result.metrics)
        if result is None and not training.interrupted:  # resumed when all steps were done
            with training.evaluation_model() as evaluated:
                result = evaluate_model(evaluated, train_set, test_set, fabric)
        if fabric.is_global_zero and result is not None and not training.interrupted:
            result.save(folder)
        elif fabric.is_global_zero:
            remove_results(folder)
    return training.result


def evaluate(recipe: ClassificationRecipe, folder: Path) -> EvaluationResult:
    """Evaluate the newest weights of a run on its test set, and keep what comes out in its folder."""
    train_set, test_set = recipe.data.load()
    model = trained_model(recipe, train_set.category_counts, folder).to(best_accelerator())
    result = evaluate_model(model, train_set, test_set)
    result.save(folder)
    return result


def predictor(recipe: ClassificationRecipe, folder: Path) -> "Callable[[Image.Image], PredictedImage]":
    """From an image to what the newest weights of a run say about it; the data set is not needed."""
    if (folder / EVALUATION).exists():
        categories = Evaluation.load(folder).categories
        names = [category.name for category in categories]
        counts = np.array([category.count for category in categories], dtype=np.int64)
    else:  # an interrupted run
        train_set, _ = recipe.data.load()
        names, counts = list(train_set.class_names), train_set.category_counts
    model = trained_model(recipe, counts, folder).to(best_accelerator())
    return LabelPredictor(model, recipe.data.evaluation_transform(), names, counts)


def build_model(recipe: ClassificationRecipe, category_counts: Counts) -> Classifier:
    """The model before its first step."""
    method = recipe.method
    if method.needs_init and recipe.init is None:
        raise EngineError("this recipe starts from a finished run: give its folder with --set init=RUN")
    init = None if recipe.init is None else load_weights(recipe.init)
    # Weights from a run replace those of the backbone, unless the run is the teacher.
    backbone = recipe.backbone if init is None or method.distils else without_weights(recipe.backbone)
    model = _assemble(recipe, backbone.build(), category_counts, teacher_weights=init)
    if init is not None and not method.distils:
        _load_features(model, init, recipe.init)
    if method.second_stage is not None:
        method.second_stage.change(model)
    return model


def trained_model(recipe: ClassificationRecipe, category_counts: Counts, folder: Path) -> Classifier:
    """The newest model of a run, for evaluation."""
    model = _assemble(recipe, without_weights(recipe.backbone).build(), category_counts)
    if recipe.method.second_stage is not None:
        recipe.method.second_stage.change(model)
    return with_weights_of(model, folder, channels_last=recipe.training.channels_last)


def build_sampler(recipe: ClassificationRecipe, train_set: ImageDataset) -> Sampler:
    """Order of the training images."""
    labels, seed = torch.as_tensor(train_set.labels), recipe.training.seed
    if recipe.method.sampler == "class_balanced":
        # Four at each visit of a category, and epochs that have as many images as there are, as published.
        return ClassBalancedSampler(labels, seed=seed, per_class=4)
    if recipe.method.sampler == "repeat_factor":
        return RepeatFactorSampler(labels, seed=seed)
    return ShuffledSampler(len(train_set), seed=seed)


@torch.no_grad()
def evaluate_model(
    model: nn.Module, train_set: ImageDataset, test_set: ImageDataset, fabric: "Fabric | None" = None
) -> EvaluationResult:
    """Predict the whole test set, shared among the ranks so that each image counts once; every rank must call."""
    rank, num_ranks = (fabric.global_rank, fabric.world_size) if fabric is not None else (0, 1)
    share = Subset(test_set, range(rank, len(test_set), num_ranks))
    device = next(model.parameters()).device
    evaluator = ClassificationEvaluator(train_set.category_counts, train_set.class_names)
    top = TopPredictions()
    loader: DataLoader[Any] = DataLoader(share, batch_size=256, num_workers=0)
    for images, targets in loader:
        predictions = model(images.to(device))
        evaluator.add(predictions, targets)
        top.add(predictions, targets)
    arrays = {**top.gathered(fabric), "class_names": np.asarray(train_set.class_names, dtype=np.str_)}
    return EvaluationResult(evaluator.result(), evaluator.per_category(), arrays)


def _assemble(
    recipe: ClassificationRecipe,
    backbone: nn.Module,
    category_counts: Counts,
    teacher_weights: dict[str, Tensor] | None = None,
) -> Classifier:
    """Backbone, classifier, loss and scores, and the teacher of a distillation."""
    method, num_classes = recipe.method, len(category_counts)
    counts = CategoryCounts(category_counts, category_counts)
    model = build_classifier(
        backbone,
        num_classes,
        method.loss.build(counts),
        method.scores.build(counts),
        cosine_temperature=method.cosine_temperature,
        bias_prior=method.bias_prior,
    )
    if method.distils:
        network = without_weights(recipe.backbone).build()
        teacher = build_classifier(network, num_classes, nn.Identity(), equigrad.SoftmaxScores())
        if teacher_weights is not None:
            _load_features(teacher, teacher_weights, recipe.init)
        model.teacher = equigrad.FrozenTeacher(nn.Sequential(teacher.backbone, teacher.classifier))
    return model


def _load_features(model: nn.Module, weights: dict[str, Tensor], folder: Path | None) -> None:
    """Take over backbone and classifier of a finished run, but neither its loss nor its teacher."""
    kept = {name: value for name, value in weights.items() if name.startswith(("backbone.", "classifier."))}
    try:
        missing, unexpected = model.load_state_dict(kept, strict=False)
    except RuntimeError as error:
        raise EngineError(f"{folder} does not fit this recipe: {str(error).splitlines()[-1].strip()}") from error
    lost = [name for name in missing if name.startswith(("backbone.", "classifier."))] + list(unexpected)
    if lost:
        raise EngineError(f"{folder} does not fit this recipe: {lost[0]} and {len(lost) - 1} more have no counterpart")
