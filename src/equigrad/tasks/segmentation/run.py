"""A run of semantic segmentation, read from top to bottom: data, model, training, evaluation, results."""

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset

import equigrad
from equigrad.analysis.history import Evaluation
from equigrad.analysis.pictures.predictions import PredictedImage
from equigrad.data.frequency import Counts
from equigrad.data.segmentation.data import SegmentationDataset, collate_segmentation
from equigrad.engine import Training, TrainResult, launch
from equigrad.engine.distributed import best_accelerator
from equigrad.engine.loading import leave_signals_to_the_training
from equigrad.evaluation.segmentation import SegmentationEvaluator
from equigrad.files import write_atomically
from equigrad.models.segmentation.segmenter import Inference, Resolution, Segmenter, build_segmenter
from equigrad.models.segmentation.sliding_window import Scale, SlidingWindow, WholeImage
from equigrad.models.segmentation.upsampled_loss import DecoderResolutionLoss, LabelResolutionLoss, TiledLoss
from equigrad.run_files import EVALUATION, LABEL_MAPS
from equigrad.sampling import ShuffledSampler
from equigrad.tasks.backbones import without_weights
from equigrad.tasks.losses import CategoryCounts
from equigrad.tasks.results import EvaluationResult, remove_results
from equigrad.tasks.segmentation.data import training_pixels
from equigrad.tasks.segmentation.predictor import SegmentationPredictor
from equigrad.tasks.segmentation.recipe import LossResolution, SegmentationRecipe
from equigrad.tasks.weights import with_weights_of

if TYPE_CHECKING:
    from lightning.fabric import Fabric

_RESOLUTIONS: dict[LossResolution, Resolution] = {
    "labels": LabelResolutionLoss,
    "tiles": TiledLoss,
    "decoder": DecoderResolutionLoss,
}


def train(
    recipe: SegmentationRecipe, folder: Path, *, resume: bool, source: Mapping[str, Any], command: Sequence[str]
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
    train_set, test_set = recipe.data.load()
    counts = training_pixels(train_set, recipe.training.num_workers, fabric)
    model = build_model(recipe, counts)
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
        recipe={**source, "num_classes": len(counts), "num_images": len(train_set)},
        command=command,
    ) as training:
        while training.run_to_evaluation():
            with training.evaluation_model() as evaluated:
                result = evaluate_model(recipe, evaluated, counts, test_set, folder, fabric)
            training.log_evaluation(result.metrics)
        if result is None and not training.interrupted:  # resumed when all steps were done
            with training.evaluation_model() as evaluated:
                result = evaluate_model(recipe, evaluated, counts, test_set, folder, fabric)
        if fabric.is_global_zero and result is not None and not training.interrupted:
            result.save(folder)
        elif fabric.is_global_zero:
            remove_results(folder)
    return training.result


def evaluate(recipe: SegmentationRecipe, folder: Path) -> EvaluationResult:
    """Evaluate the newest weights of a run on its test set, and keep what comes out in its folder."""
    train_set, test_set = recipe.data.load()
    counts = training_pixels(train_set, recipe.training.num_workers)
    model = trained_model(recipe, counts, folder).to(best_accelerator())
    result = evaluate_model(recipe, model, counts, test_set, folder)
    result.save(folder)
    return result


def predictor(recipe: SegmentationRecipe, folder: Path) -> Callable[[Image.Image], PredictedImage]:
    """From an image to what the newest weights of a run say about it; the data set is not needed."""
    if (folder / EVALUATION).exists():
        categories = Evaluation.load(folder).categories
        names: Sequence[str] = [category.name for category in categories]
        counts = np.array([category.count for category in categories], dtype=np.int64)
    else:  # an interrupted run
        train_set, _ = recipe.data.load()
        names, counts = train_set.class_names, training_pixels(train_set, recipe.training.num_workers)
    groups = SegmentationEvaluator(names, counts, group_by=recipe.data.group_by).groups
    model = trained_model(recipe, counts, folder).to(best_accelerator())
    return SegmentationPredictor(model, names, set(groups[-1].tolist()))


def build_model(recipe: SegmentationRecipe, pixel_counts: Counts) -> Segmenter:
    """The model before its first step."""
    return _assemble(recipe, recipe.backbone.build(), pixel_counts)


def trained_model(recipe: SegmentationRecipe, pixel_counts: Counts, folder: Path) -> Segmenter:
    """The newest model of a run, for evaluation."""
    model = _assemble(recipe, without_weights(recipe.backbone).build(), pixel_counts)
    return with_weights_of(model, folder, channels_last=recipe.training.channels_last)


def build_sampler(recipe: SegmentationRecipe, train_set: SegmentationDataset) -> ShuffledSampler:
    """Order of the training images."""
    # What does not fill a batch is left out: heads that average an image need at least two to normalise.
    return ShuffledSampler(len(train_set), seed=recipe.training.seed, drop_last=True)


@torch.no_grad()
def evaluate_model(
    recipe: SegmentationRecipe,
    model: nn.Module,
    pixel_counts: Counts,
    test_set: SegmentationDataset,
    folder: Path,
    fabric: "Fabric | None" = None,
) -> EvaluationResult:
    """Predict the whole test set, shared among the ranks so that each image counts once; every rank must call."""
    rank, num_ranks = (fabric.global_rank, fabric.world_size) if fabric is not None else (0, 1)
    share = range(rank, len(test_set), num_ranks)
    evaluator = SegmentationEvaluator(test_set.class_names, pixel_counts, group_by=recipe.data.group_by)
    device = next(model.parameters()).device
    loader: DataLoader[Any] = DataLoader(
        Subset(test_set, share),
        batch_size=1,  # images have sizes of their own
        collate_fn=collate_segmentation,
        num_workers=recipe.training.num_workers,
        worker_init_fn=leave_signals_to_the_training,
    )
    for index, (images, targets) in zip(share, loader, strict=True):
        predictions = model(images.to(device))
        evaluator.add(predictions, targets)
        if recipe.keeps_label_maps:
            _save_label_map(predictions[0]["labels"], folder, test_set.data.names[index])
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


def _save_label_map(labels: Tensor, folder: Path, name: str) -> None:
    """Keep predicted categories (H, W) of a test image in the run folder."""
    file = folder / LABEL_MAPS / f"{name}.png"
    file.parent.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    Image.fromarray(labels.cpu().numpy().astype(np.uint8)).save(content, "PNG")
    write_atomically(file, content.getvalue())
