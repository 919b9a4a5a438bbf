"""A run of detection or instance segmentation, read from top to bottom: data, model, training, evaluation, results."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset

from equigrad.analysis.pictures.predictions import PredictedImage
from equigrad.data.detection.dataset import DetectionDataset
from equigrad.data.detection.transformed_dataset import TransformedDataset
from equigrad.engine import EngineError, Training, TrainResult, launch
from equigrad.engine.checkpoint import load_weights
from equigrad.engine.distributed import best_accelerator
from equigrad.engine.loading import leave_signals_to_the_training
from equigrad.run_files import CATEGORIES, PREDICTIONS
from equigrad.sampling import ClassBalancedSampler, RepeatFactorSampler, ShuffledSampler
from equigrad.sampling.presence import CategoryPresence
from equigrad.tasks.backbones import without_weights
from equigrad.tasks.categories import TrainedCategories
from equigrad.tasks.detection.data import DetectionSets, GlyphObjects
from equigrad.tasks.detection.original_image import to_original_image
from equigrad.tasks.detection.predictor import DetectionPredictor
from equigrad.tasks.detection.recipe import DetectionRecipe
from equigrad.tasks.progress import with_progress
from equigrad.tasks.results import EvaluationResult, remove_results
from equigrad.tasks.samplers import Sampler
from equigrad.tasks.weights import with_weights_of

if TYPE_CHECKING:
    from lightning.fabric import Fabric
    from PIL import Image


def train(
    recipe: DetectionRecipe, folder: Path, *, resume: bool, source: Mapping[str, Any], command: Sequence[str]
) -> TrainResult:
    """Train in the run folder; at the end evaluate, keep what came out and write the page of the run.

    Args:
        recipe: the settings.
        folder: of the run.
        resume: go on from its last checkpoint.
        source: what `recipe.json` says about the recipe.
        command: how the run was started.
    """
    fabric = launch(precision=recipe.precision, seed=recipe.training.seed, accelerator=recipe.device)
    sets = recipe.data.load(with_masks=recipe.with_masks)
    categories = TrainedCategories.of(sets.train.data)
    if fabric.is_global_zero:
        print(sets.train.describe(), flush=True)
    model = build_model(recipe, categories)
    train_set = recipe.preprocessing.training(sets.train)
    sampler = build_sampler(recipe, sets.train)
    result = None
    with Training(
        fabric,
        model,
        train_set,
        sampler,
        recipe.training,
        folder,
        resume=resume,
        collate=recipe.preprocessing.collate(),
        sample_name=sets.train.sample_name,
        recipe={**source, "num_classes": len(categories), "num_images": len(sets.train)},
        command=command,
    ) as training:
        if fabric.is_global_zero:
            categories.save(folder)
        while training.run_to_evaluation():
            with training.evaluation_model() as evaluated:
                result = evaluate_model(recipe, evaluated, sets, folder / PREDICTIONS, fabric)
            training.log_evaluation(result.metrics)
        if result is None and not training.interrupted:  # resumed when all steps were done
            with training.evaluation_model() as evaluated:
                result = evaluate_model(recipe, evaluated, sets, folder / PREDICTIONS, fabric)
        if fabric.is_global_zero and result is not None and not training.interrupted:
            result.save(folder)
        elif fabric.is_global_zero:
            remove_results(folder)
    return training.result


def evaluate(recipe: DetectionRecipe, folder: Path) -> EvaluationResult:
    """Evaluate the newest weights of a run on its test set, and keep what comes out in its folder."""
    sets = _stored_sets(recipe)
    categories = TrainedCategories.of(sets.train.data)
    model = trained_model(recipe, categories, folder).to(best_accelerator())
    result = evaluate_model(recipe, model, sets, folder / PREDICTIONS)
    categories.save(folder)
    result.save(folder)
    return result


def predictor(recipe: DetectionRecipe, folder: Path) -> "Callable[[Image.Image], PredictedImage]":
    """From an image to what the newest weights of a run see in it; the data set is not needed."""
    if (folder / CATEGORIES).exists():
        categories = TrainedCategories.load(folder)
    else:  # a folder that lost it
        categories = TrainedCategories.of(_stored_sets(recipe).train.data)
    model = trained_model(recipe, categories, folder).to(best_accelerator())
    preprocessing = recipe.preprocessing
    return DetectionPredictor(model, categories, preprocessing.testing(), preprocessing.collate(), recipe.shown)


def _stored_sets(recipe: DetectionRecipe) -> DetectionSets:
    """The data of a finished run, whose folder may come from anybody: nothing is drawn where its recipe says."""
    if isinstance(recipe.data, GlyphObjects) and not recipe.data.is_drawn:
        root = recipe.data.root
        raise EngineError(f"{root}: the scenes of the run are not there; draw them by a training with data.root={root}")
    return recipe.data.load(with_masks=recipe.with_masks)


def build_model(recipe: DetectionRecipe, categories: TrainedCategories) -> nn.Module:
    """The model before its first step."""
    if recipe.second_stage is None:
        return recipe.detector.build(recipe.backbone.build(), recipe.method, categories.counts)  # type: ignore[arg-type]
    if recipe.init is None:
        raise EngineError("this recipe starts from a finished run: give its folder with --set init=RUN")
    model = _untrained_model(recipe, categories)
    try:
        recipe.second_stage.load(model, load_weights(recipe.init))
    except (ValueError, RuntimeError) as error:
        raise EngineError(f"{recipe.init} does not fit this recipe: {str(error).splitlines()[-1].strip()}") from error
    recipe.second_stage.change(model)
    return model


def trained_model(recipe: DetectionRecipe, categories: TrainedCategories, folder: Path) -> nn.Module:
    """The newest model of a run, for evaluation."""
    model = _untrained_model(recipe, categories)
    if recipe.second_stage is not None:
        recipe.second_stage.change(model)
    return with_weights_of(model, folder, channels_last=recipe.training.channels_last)


def _untrained_model(recipe: DetectionRecipe, categories: TrainedCategories) -> nn.Module:
    backbone = without_weights(recipe.backbone).build()
    return recipe.detector.build(backbone, recipe.method, categories.counts)  # type: ignore[arg-type]


def build_sampler(recipe: DetectionRecipe, train_set: DetectionDataset) -> Sampler:
    """Order of the training images."""
    seed = recipe.training.seed
    if recipe.sampler == "random":
        return ShuffledSampler(len(train_set), seed=seed)
    images, labels = (torch.from_numpy(column) for column in train_set.presence)
    presence = CategoryPresence(images, labels, len(train_set), train_set.data.num_classes)
    if recipe.sampler == "class_balanced":
        return ClassBalancedSampler(presence, seed=seed)
    return RepeatFactorSampler(presence, threshold=recipe.repeat_threshold, seed=seed)


@torch.no_grad()
def evaluate_model(
    recipe: DetectionRecipe, model: nn.Module, sets: DetectionSets, folder: Path, fabric: "Fabric | None" = None
) -> EvaluationResult:
    """Detect in the whole test set, shared among the ranks so that each image counts once; every rank must call.

    Args:
        recipe: the settings.
        model: in evaluation mode.
        sets: with the test set.
        folder: for predictions.
        fabric: of the run; None is one process.
    """
    rank, num_ranks = (fabric.global_rank, fabric.world_size) if fabric is not None else (0, 1)
    share = range(rank, len(sets.test), num_ranks)
    evaluator = sets.evaluator(folder, ("bbox", "segm") if recipe.with_masks else ("bbox",))
    test_set = TransformedDataset(sets.test, recipe.preprocessing.testing())
    loader: DataLoader[Any] = DataLoader(
        Subset(test_set, share),  # type: ignore[arg-type]
        batch_size=recipe.test_batch_size,
        collate_fn=recipe.preprocessing.collate(),
        num_workers=recipe.training.num_workers,
        worker_init_fn=leave_signals_to_the_training,
    )
    device = next(model.parameters()).device
    for images, targets in with_progress(loader, len(share)) if rank == 0 else loader:
        predictions = model(images.to(device), targets)
        evaluator.add([to_original_image(*pair) for pair in zip(predictions, targets, strict=True)], targets)
    return EvaluationResult(evaluator.result(), evaluator.per_category())
