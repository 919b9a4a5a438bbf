"""A recipe of semantic segmentation: how it is trained, evaluated and used."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Subset

import equigrad
from equigrad.analysis.history import EVALUATION, Evaluation
from equigrad.analysis.pictures.predictions import PredictedImage
from equigrad.data.frequency import Counts
from equigrad.data.segmentation.data import SegmentationDataset, collate
from equigrad.engine import TrainResult, TrainSettings, launch, train
from equigrad.engine.distributed import Precision, best_accelerator
from equigrad.engine.loading import leave_signals_to_the_training
from equigrad.engine.train import Evaluate
from equigrad.evaluation.segmentation import SegmentationEvaluator
from equigrad.models.segmentation.segmenter import Head, Inference, Resolution, Segmenter, build_segmenter
from equigrad.models.segmentation.sliding_window import Scale, SlidingWindow, WholeImage
from equigrad.models.segmentation.upsampled_loss import DecoderResolutionLoss, LabelResolutionLoss, TiledLoss
from equigrad.recipes.backbones import untrained
from equigrad.recipes.methods import Method
from equigrad.recipes.segmentation_data import SegmentationSource, training_pixels
from equigrad.recipes.segmentation_predictor import SegmentationPredictor
from equigrad.recipes.segmentation_results import SegmentationTest, remove_results, save_label_map
from equigrad.recipes.train_and_test import train_and_test, with_weights_of
from equigrad.sampling import SeededSampler, ShuffledSampler

if TYPE_CHECKING:
    from lightning.fabric import Fabric
    from PIL import Image

AuxiliaryLoss = Literal["ce", "method", "none"]
LossPlace = Literal["labels", "tiles", "decoder"]

_RESOLUTIONS: dict[LossPlace, Resolution] = {
    "labels": LabelResolutionLoss,
    "tiles": TiledLoss,
    "decoder": DecoderResolutionLoss,
}


@dataclass(frozen=True)
class SegmentationRecipe:
    """One category a pixel.

    Args:
        data: training and test images with label maps.
        backbone: builds the encoder.
        head: from the channels of the encoder and the number of logits to the head.
        method: loss and scores.
        training: how long, how fast, in what batches.
        auxiliary: loss of the auxiliary head, of weight 0.4: plain cross-entropy, one like the method's with statistics
            of its own, or no such head.
        loss_at: where logits and labels meet: at the size of the labels, there but in tiles to save memory, or at that
            of the decoder; see `equigrad.models.segmentation.upsampled_loss`.
        window: side of the sliding windows of inference, which overlap by a third; None is the whole image at once.
        keeps_label_maps: write the prediction for every test image as an index PNG into the run folder.
        precision: "32", "bf16" or "fp16".
        table: of the paper, that the recipe is a row of.
        row: in that table.
    """

    data: SegmentationSource
    backbone: Callable[[], nn.Module]
    head: Head
    method: Method
    training: TrainSettings
    auxiliary: AuxiliaryLoss = "ce"
    loss_at: LossPlace = "labels"
    window: int | None = None
    keeps_label_maps: bool = False
    precision: Precision = "32"
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
        train_set, test_set = self.data.load()
        counts = training_pixels(train_set, self.training.num_workers, fabric)

        def training(evaluate: Evaluate) -> TrainResult:
            return train(
                fabric,
                self.model(counts),
                train_set,
                self.sampler(train_set),
                self.training,
                folder,
                resume=resume,
                collate=collate,
                sample_name=train_set.sample_name,
                evaluate=evaluate,
                recipe={**source, "num_classes": len(counts), "num_images": len(train_set)},
                command=command,
            )

        return train_and_test(
            fabric,
            folder,
            train=training,
            test=partial(self.test, folder=folder, counts=counts, test_set=test_set, fabric=fabric),
            newest_model=lambda: self.trained_model(counts, folder),
            remove_results=remove_results,
        )

    def model(self, category_counts: Counts) -> Segmenter:
        """The model before its first step; counts are pixels."""
        return self._assembled(self.backbone(), category_counts)

    def trained_model(self, category_counts: Counts, folder: Path) -> Segmenter:
        """The newest model of a run, for evaluation."""
        return with_weights_of(self._assembled(untrained(self.backbone)(), category_counts), folder)

    def _assembled(self, backbone: nn.Module, counts: Counts) -> Segmenter:
        method = self.method
        return build_segmenter(
            backbone,
            self.head,
            len(counts),
            method.loss(counts),
            method.scores(counts),
            auxiliary_loss=self._auxiliary_loss(counts),
            bias_prior=method.bias_prior,
            resolution=_RESOLUTIONS[self.loss_at],
            inference=self._inference(),
        )

    def _auxiliary_loss(self, counts: Counts) -> nn.Module | None:
        if self.auxiliary == "none":
            return None
        return equigrad.CrossEntropyLoss() if self.auxiliary == "ce" else self.method.loss(counts)

    def _inference(self) -> Inference:
        base = self.data.base
        scale = None if base is None else Scale(short_side=base[1], long_side=base[0])
        if self.window is None:
            return WholeImage(scale)
        return SlidingWindow(self.window, max(2 * self.window // 3, 1), scale=scale)

    def sampler(self, train_set: SegmentationDataset) -> SeededSampler:
        """Order of the training images."""
        # What does not fill a batch is left out: heads that average an image need at least two to normalise.
        return ShuffledSampler(len(train_set), seed=self.training.seed, drop_last=True)

    @torch.no_grad()
    def test(
        self,
        model: nn.Module,
        *,
        folder: Path,
        counts: Counts,
        test_set: SegmentationDataset,
        fabric: "Fabric | None" = None,
    ) -> SegmentationTest:
        """Predict the whole test set, shared among the ranks so that each image counts once; every rank must call."""
        rank, num_ranks = (fabric.global_rank, fabric.world_size) if fabric is not None else (0, 1)
        share = range(rank, len(test_set), num_ranks)
        evaluator = SegmentationEvaluator(test_set.class_names, counts, group_by=self.data.group_by)
        device = next(model.parameters()).device
        loader: DataLoader[Any] = DataLoader(
            Subset(test_set, share),
            batch_size=1,  # images have sizes of their own
            collate_fn=collate,
            num_workers=self.training.num_workers,
            worker_init_fn=leave_signals_to_the_training,
        )
        for index, (images, targets) in zip(share, loader, strict=True):
            predictions = model(images.to(device))
            evaluator.add(predictions, targets)
            if self.keeps_label_maps:
                save_label_map(predictions[0]["labels"], folder, test_set.data.names[index])
        return SegmentationTest.of(evaluator)

    def evaluate_run(self, folder: Path) -> SegmentationEvaluator:
        """Evaluate the newest weights of a run on its test set, and keep what comes out in its folder."""
        train_set, test_set = self.data.load()
        counts = training_pixels(train_set, self.training.num_workers)
        model = self.trained_model(counts, folder).to(best_accelerator())
        tested = self.test(model, folder=folder, counts=counts, test_set=test_set)
        tested.save(folder)
        return tested.evaluator

    def predictor(self, folder: Path) -> "Callable[[Image.Image], PredictedImage]":
        """From an image to what the newest weights of a run say about it."""
        names, counts = self._categories(folder)
        groups = SegmentationEvaluator(names, counts, group_by=self.data.group_by).groups
        model = self.trained_model(counts, folder).to(best_accelerator())
        return SegmentationPredictor(model, names, set(groups[-1].tolist()))

    def _categories(self, folder: Path) -> tuple[Sequence[str], Counts]:
        """Names and training pixels; the data set is only needed for a run that was interrupted."""
        if (folder / EVALUATION).exists():
            categories = Evaluation.load(folder).categories
            counts = np.array([category.count for category in categories], dtype=np.int64)
            return [category.name for category in categories], counts
        train_set, _ = self.data.load()
        return train_set.class_names, training_pixels(train_set, self.training.num_workers)
