"""A run of detection or instance segmentation, read from top to bottom: data, model, training, evaluation, results."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import Subset

from equigrad.data.detection.dataset import DetectionDataset
from equigrad.data.detection.transformed_dataset import TransformedDataset
from equigrad.engine import EngineError, Training, TrainResult, launch
from equigrad.engine.checkpoint import load_weights
from equigrad.engine.distributed import join_ranks, ranks
from equigrad.engine.loading.evaluation_loader import EvaluationLoader
from equigrad.run_files import CATEGORIES, PREDICTIONS
from equigrad.sampling import ClassBalancedSampler, RepeatFactorSampler, ShuffledSampler
from equigrad.sampling.presence import CategoryPresence
from equigrad.tasks.backbones import PyramidBackbone, without_weights
from equigrad.tasks.categories import TrainedCategories
from equigrad.tasks.detection.data import DetectionSets, GlyphObjects, Images
from equigrad.tasks.detection.original_image import to_original_image
from equigrad.tasks.detection.predictor import DetectionPredictor
from equigrad.tasks.detection.recipe import DetectionRecipe
from equigrad.tasks.progress import tail_summary, tested_batches
from equigrad.tasks.results import EvaluationResult, remove_results
from equigrad.tasks.samplers import Sampler
from equigrad.tasks.start import shown_weights, started_model
from equigrad.tasks.weights import with_weights_of


def train(
    recipe: DetectionRecipe, folder: Path, *, resume: bool, source: Mapping[str, Any], command: Sequence[str]
) -> TrainResult:
    """Train in the run folder; at the end evaluate, save the results and write the page of the run.

    Args:
        recipe: the settings.
        folder: the run folder.
        resume: continue from its last checkpoint.
        source: what `recipe.json` says about the recipe.
        command: how the run was started.
    """
    fabric = launch(precision=recipe.precision, seed=recipe.training.seed, accelerator=recipe.device)
    sets = recipe.data.load(with_masks=recipe.with_masks)
    categories = TrainedCategories.of(sets.train.data)
    with shown_weights(shown=fabric.is_global_zero):
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
        num_classes=len(categories),
        recipe={**source, "num_classes": len(categories), "num_images": len(sets.train)},
        data_summary=f"{sets.train.describe()}; {tail_summary(categories.image_counts)}",
        command=command,
    ) as training:
        if fabric.is_global_zero:
            remove_results(folder)  # of an earlier evaluation, if the run is resumed
            categories.save(folder)
        fabric.barrier()  # before any rank writes new results
        part = sets.minival(recipe.check_images)
        while training.run_to_evaluation():
            check, result = None, None
            with training.evaluation_model() as evaluated:
                if part is not None:
                    check = evaluate_model(recipe, evaluated, sets, folder / PREDICTIONS, training, images=part)
                if part is None or training.is_last_step:
                    result = evaluate_model(recipe, evaluated, sets, folder / PREDICTIONS, training)
            training.log_evaluation(result.metrics if result else {}, check.metrics if check else None)
        if result is None and not training.interrupted:  # resumed when all steps were done
            with training.evaluation_model() as evaluated:
                result = evaluate_model(recipe, evaluated, sets, folder / PREDICTIONS, training)
        if fabric.is_global_zero and result is not None and not training.interrupted:
            result.save(folder)
    return training.result


def evaluate(recipe: DetectionRecipe, folder: Path, weights: Path | None = None) -> EvaluationResult:
    """Evaluate the newest weights of a run on its test set, shared among the ranks; every rank must call.

    Args:
        recipe: the settings.
        folder: the run folder; the first rank writes the results there.
        weights: run folder to take the weights from; None is `folder`.
    """
    device = join_ranks()
    sets = stored_sets(recipe)
    categories = TrainedCategories.of(sets.train.data)
    model = trained_model(recipe, categories, weights or folder).to(device)
    result = evaluate_model(recipe, model, sets, folder / PREDICTIONS)
    if ranks()[0] == 0:
        categories.save(folder)
        result.save(folder)
    return result


def predictor(recipe: DetectionRecipe, folder: Path) -> DetectionPredictor:
    """A predictor with the newest weights of a run; the data set is not needed."""
    categories = categories_of_run(recipe, folder)
    model = trained_model(recipe, categories, folder)
    preprocessing = recipe.preprocessing
    return DetectionPredictor(model, categories, preprocessing.testing(), preprocessing.collate(), recipe.shown)


def categories_of_run(recipe: DetectionRecipe, folder: Path) -> TrainedCategories:
    """The categories of a run, from its folder or, if the file is missing there, from its data."""
    if (folder / CATEGORIES).exists():
        return TrainedCategories.load(folder)
    return TrainedCategories.of(stored_sets(recipe).train.data)


def stored_sets(recipe: DetectionRecipe) -> DetectionSets:
    """The data of a finished run. Its recipe is not trusted: no scenes are written to the folder that it names."""
    if isinstance(recipe.data, GlyphObjects) and not recipe.data.is_drawn:
        root = recipe.data.root
        raise EngineError(f"{root}: the scenes of the run are not there; draw them by a training with data.root={root}")
    return recipe.data.load(with_masks=recipe.with_masks)


def build_model(recipe: DetectionRecipe, categories: TrainedCategories) -> nn.Module:
    """Build the model to train."""
    if recipe.second_stage is None:
        return started_model(recipe, lambda backbone: _assemble(recipe, backbone, categories), categories.names)
    if recipe.init is None:
        raise EngineError("this recipe starts from a finished run: give its folder with --init RUN")
    model = _assemble(recipe, without_weights(recipe.backbone), categories)
    try:
        recipe.second_stage.load(model, load_weights(recipe.init))
    except (ValueError, RuntimeError) as error:
        raise EngineError(f"{recipe.init} does not fit this recipe: {str(error).splitlines()[-1].strip()}") from error
    recipe.second_stage.change(model)
    return model


def trained_model(recipe: DetectionRecipe, categories: TrainedCategories, folder: Path) -> nn.Module:
    """The newest model of a run, for evaluation."""
    model = _assemble(recipe, without_weights(recipe.backbone), categories)
    if recipe.second_stage is not None:
        recipe.second_stage.change(model)
    return with_weights_of(model, folder, channels_last=recipe.training.channels_last)


def _assemble(recipe: DetectionRecipe, backbone: PyramidBackbone, categories: TrainedCategories) -> nn.Module:
    return recipe.detector.build(backbone.build(), recipe.method, categories.counts)  # type: ignore[arg-type]


def build_sampler(recipe: DetectionRecipe, train_set: DetectionDataset) -> Sampler:
    """Order of the training images."""
    seed = recipe.training.seed
    if recipe.sampler == "random":
        return ShuffledSampler(len(train_set), seed=seed)
    # Copies, because torch warns of the read-only arrays of an index.
    images, labels = (torch.tensor(column, dtype=torch.int64) for column in train_set.presence)
    presence = CategoryPresence(images, labels, len(train_set), train_set.data.num_classes)
    if recipe.sampler == "class_balanced":
        return ClassBalancedSampler(presence, seed=seed)
    return RepeatFactorSampler(presence, threshold=recipe.repeat_threshold, seed=seed)


@torch.no_grad()
def evaluate_model(
    recipe: DetectionRecipe,
    model: nn.Module,
    sets: DetectionSets,
    folder: Path,
    training: Training | None = None,
    *,
    images: Images | None = None,
) -> EvaluationResult:
    """Detect in the test set, shared among the ranks so that each image counts once; every rank must call.

    Args:
        recipe: the settings.
        model: in evaluation mode.
        sets: with the test set.
        folder: for predictions.
        training: the training that is evaluated, which can be stopped; None if there is none.
        images: indices of the test images; None is all.
    """
    evaluator = sets.evaluator(folder, ("bbox", "segm") if recipe.with_masks else ("bbox",), images)
    test_set: Any = TransformedDataset(sets.test, recipe.preprocessing.testing())
    loader = EvaluationLoader(
        test_set if images is None else Subset(test_set, images.tolist()),
        batch_size=recipe.test_batch_size,
        num_workers=recipe.training.num_workers,
        collate=recipe.preprocessing.collate(),
    )
    device = next(model.parameters()).device
    for batch, targets in tested_batches(loader, len(loader.share), training):
        predictions = model(batch.to(device), targets)
        evaluator.add([to_original_image(*pair) for pair in zip(predictions, targets, strict=True)], targets)
    return EvaluationResult(evaluator.result(), evaluator.per_category())
