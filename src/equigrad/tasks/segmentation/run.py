"""A run of semantic segmentation, read from top to bottom: data, model, training, evaluation, results."""

import io
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

import equigrad
from equigrad.analysis.evaluation_file import Evaluation
from equigrad.data.frequency import Counts
from equigrad.data.segmentation.data import SegmentationDataset, collate_segmentation
from equigrad.engine import Training, TrainResult, launch
from equigrad.engine.distributed import join_ranks, ranks
from equigrad.engine.loading.evaluation_loader import EvaluationLoader
from equigrad.evaluation.segmentation import SegmentationEvaluator
from equigrad.files import write_atomically
from equigrad.models.segmentation.segmenter import Inference, Resolution, Segmenter, build_segmenter
from equigrad.models.segmentation.sliding_window import Scale, SlidingWindow, WholeImage
from equigrad.models.segmentation.upsampled_loss import DecoderResolutionLoss, LabelResolutionLoss, TiledLoss
from equigrad.run_files import EVALUATION, LABEL_MAPS
from equigrad.sampling import ShuffledSampler
from equigrad.tasks.backbones import without_weights
from equigrad.tasks.equal_shapes import equal_shapes
from equigrad.tasks.losses import CategoryCounts
from equigrad.tasks.progress import data_summary, tested_batches
from equigrad.tasks.results import EvaluationResult, remove_results
from equigrad.tasks.segmentation.data import training_pixels
from equigrad.tasks.segmentation.predictor import SegmentationPredictor
from equigrad.tasks.segmentation.recipe import LossResolution, SegmentationRecipe
from equigrad.tasks.start import shown_weights, started_model
from equigrad.tasks.weights import with_weights_of

_RESOLUTIONS: dict[LossResolution, Resolution] = {
    "labels": LabelResolutionLoss,
    "tiles": TiledLoss,
    "decoder": DecoderResolutionLoss,
}


def train(
    recipe: SegmentationRecipe, folder: Path, *, resume: bool, source: Mapping[str, Any], command: Sequence[str]
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
    train_set, test_set = recipe.data.load()
    counts = training_pixels(train_set, recipe.training.num_workers)
    with shown_weights(shown=fabric.is_global_zero):
        model = build_model(recipe, counts, train_set.class_names)
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
        collate=collate_segmentation,
        sample_name=train_set.sample_name,
        num_classes=len(counts),
        recipe={**source, "num_classes": len(counts), "num_images": len(train_set)},
        data_summary=data_summary(len(train_set), counts, unit="pixels"),
        command=command,
    ) as training:
        if fabric.is_global_zero:
            remove_results(folder)  # of an earlier evaluation, if the run is resumed
        fabric.barrier()  # before any rank writes new results
        while training.run_to_evaluation():
            with training.evaluation_model() as evaluated:
                result = evaluate_model(recipe, evaluated, counts, test_set, folder, training)
            training.log_evaluation(result.metrics)
        if result is None and not training.interrupted:  # resumed when all steps were done
            with training.evaluation_model() as evaluated:
                result = evaluate_model(recipe, evaluated, counts, test_set, folder, training)
        if fabric.is_global_zero and result is not None and not training.interrupted:
            result.save(folder)
    return training.result


def evaluate(recipe: SegmentationRecipe, folder: Path, weights: Path | None = None) -> EvaluationResult:
    """Evaluate the newest weights of a run on its test set, shared among the ranks; every rank must call.

    Args:
        recipe: the settings.
        folder: the run folder; the first rank writes the results there.
        weights: run folder to take the weights from; None is `folder`.
    """
    device = join_ranks()
    train_set, test_set = recipe.data.load()
    counts = training_pixels(train_set, recipe.training.num_workers)
    model = trained_model(recipe, counts, weights or folder).to(device)
    result = evaluate_model(recipe, model, counts, test_set, folder)
    if ranks()[0] == 0:
        result.save(folder)
    return result


def predictor(recipe: SegmentationRecipe, folder: Path) -> SegmentationPredictor:
    """A predictor with the newest weights of a run; the data set is not needed."""
    names, counts = categories_of_run(recipe, folder)
    groups = SegmentationEvaluator(names, counts, group_by=recipe.data.group_by).groups
    model = trained_model(recipe, counts, folder)
    return SegmentationPredictor(model, names, set(groups[-1].tolist()))


def categories_of_run(recipe: SegmentationRecipe, folder: Path) -> tuple[Sequence[str], Counts]:
    """Names and training pixels of the categories, from the run folder or, if it was interrupted, from its data."""
    if (folder / EVALUATION).exists():
        return Evaluation.load(folder).names_and_counts()
    train_set, _ = recipe.data.load()
    return train_set.class_names, training_pixels(train_set, recipe.training.num_workers)


def build_model(recipe: SegmentationRecipe, pixel_counts: Counts, class_names: Sequence[str] = ()) -> Segmenter:
    """Build the model to train; weights of a run in `init` are matched by the names of the categories."""
    return started_model(recipe, lambda backbone: _assemble(recipe, backbone.build(), pixel_counts), class_names)


def trained_model(recipe: SegmentationRecipe, pixel_counts: Counts, folder: Path) -> Segmenter:
    """The newest model of a run, for evaluation."""
    model = _assemble(recipe, without_weights(recipe.backbone).build(), pixel_counts)
    return with_weights_of(model, folder, channels_last=recipe.training.channels_last)


def build_sampler(recipe: SegmentationRecipe, train_set: SegmentationDataset) -> ShuffledSampler:
    """Order of the training images."""
    # An incomplete batch is left out: batch norm over image averages needs at least two images.
    return ShuffledSampler(len(train_set), seed=recipe.training.seed, drop_last=True)


@torch.no_grad()
def evaluate_model(
    recipe: SegmentationRecipe,
    model: nn.Module,
    pixel_counts: Counts,
    test_set: SegmentationDataset,
    folder: Path,
    training: Training | None = None,
) -> EvaluationResult:
    """Predict the whole test set, shared among the ranks so that each image counts once; every rank must call."""
    evaluator = SegmentationEvaluator(test_set.class_names, pixel_counts, group_by=recipe.data.group_by)
    device = next(model.parameters()).device
    loader = EvaluationLoader(
        test_set, batch_size=recipe.test_batch_size, num_workers=recipe.training.num_workers, collate=_unstacked
    )
    names = iter([test_set.data.names[index] for index in loader.share])
    for images, targets in tested_batches(loader, len(loader.share), training):
        batch_names = list(islice(names, len(images)))
        for alike in equal_shapes(images):
            batch, batch_targets = collate_segmentation([(images[index], targets[index]) for index in alike])
            predictions = model(batch.to(device))
            evaluator.add(predictions, batch_targets)
            if recipe.keeps_label_maps:
                for index, prediction in zip(alike, predictions, strict=True):
                    _save_label_map(prediction["labels"], folder, batch_names[index])
    confusion = evaluator.confusion().numpy()
    arrays = {"confusion": confusion, "class_names": np.asarray(evaluator.class_names, dtype=np.str_)}
    return EvaluationResult(evaluator.result(), evaluator.per_category(), arrays)


def _assemble(recipe: SegmentationRecipe, backbone: nn.Module, pixel_counts: Counts) -> Segmenter:
    """Encoder, heads, losses and inference."""
    method, counts = recipe.method, CategoryCounts(pixel_counts, pixel_counts)
    auxiliary_loss: nn.Module | None = None
    if recipe.auxiliary != "none":
        auxiliary_loss = equigrad.CrossEntropyLoss() if recipe.auxiliary == "ce" else method.loss.build(counts)
    return build_segmenter(
        backbone,
        recipe.head,
        len(pixel_counts),
        method.loss.build(counts),
        method.scores.build(counts),
        auxiliary_loss=auxiliary_loss,
        bias_prior=method.bias_prior,
        resolution=_RESOLUTIONS[recipe.loss_at],
        inference=_inference(recipe),
    )


def _inference(recipe: SegmentationRecipe) -> Inference:
    base = recipe.data.base
    scale = None if base is None else Scale(short_side=base[1], long_side=base[0])
    if recipe.window is None:
        return WholeImage(scale)
    return SlidingWindow(recipe.window, max(2 * recipe.window // 3, 1), scale=scale)


def _unstacked(samples: Sequence[tuple[Tensor, Any]]) -> tuple[list[Tensor], list[Any]]:
    """A batch of test images as a list, because their sizes differ."""
    return [image for image, _ in samples], [targets for _, targets in samples]


def _save_label_map(labels: Tensor, folder: Path, name: str) -> None:
    """Keep predicted categories (H, W) of a test image in the run folder."""
    file = folder / LABEL_MAPS / f"{name}.png"
    file.parent.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    Image.fromarray(labels.cpu().numpy().astype(np.uint8)).save(content, "PNG")
    write_atomically(file, content.getvalue())
