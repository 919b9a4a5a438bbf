"""The dense detector, made of a pyramid, a head, anchors, an assigner, a box coder and losses that are passed in.

    loss, scores = equigrad.EqualizedFocalLoss(1203), equigrad.SigmoidScores()
    model = improved_atss(resnet50_fpn(TORCHVISION), 1203, loss, scores)       # one of the builders
    losses = model(images, targets)       # training: {"classification": ..., "box": ..., "quality": ...}
    predictions = model(images)           # evaluation: [{"boxes": (n, 4), "scores": (n,), "labels": (n,)}, ...]

All builders take the pyramid, the number of categories C, the classification loss, the scores, which decide how many
logits an anchor has, `with_quality`, whether the loss takes the IoU of the positives as `QualityFocalLoss` does, and
`prior`, the probability each category starts with.

Anchors in the padding of a batch are background like any others, as in the published detectors: whether an anchor is
background must not depend on the other images of the batch.
Paths of parts, for `frozen` and for rules of the optimiser, are `pyramid`, `head` and `classification_loss`.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equigrad.labels import BACKGROUND, IGNORE
from equigrad.models.detection.anchors import AnchorGrid
from equigrad.models.detection.assignment.max_iou import Assignment
from equigrad.models.detection.one_stage.head import LevelOutput
from equigrad.models.detection.one_stage.inference import DenseInference
from equigrad.models.detection.one_stage.losses import (
    BoxLoss,
    Positives,
    QualityBranch,
    average_over_ranks,
    iou_quality,
)
from equigrad.models.detection.one_stage.predictions import (
    BoxCoder,
    ImagePredictions,
    class_logits,
    image_predictions,
    join,
    join_quality,
    split,
)
from equigrad.models.detection.pyramids.shape import imagenet_channels
from equigrad.models.detection.targets import Target, check_targets, image_sizes
from equigrad.models.scores import Scores
from equigrad.statistics import one_batch

StaticAssigner = Callable[[Sequence[Tensor], Tensor, Tensor], Assignment]
"""From anchors of each level, boxes (G, 4) and labels (G,) of the objects of an image."""

DynamicAssigner = Callable[[ImagePredictions, Tensor, Tensor], Assignment]
"""Like a `StaticAssigner`, but from the predictions for an image instead of the anchors."""


class DenseDetector(nn.Module):
    """A one-stage detector. The builders in `retinanet`, `fcos`, `atss`, `paa` and `yolox` name the parts of each.

    Args:
        pyramid: from images (B, 3, H, W) to maps (B, D, H_l, W_l); it normalises the images itself.
        head: from these maps to a `LevelOutput` of each level.
        grid: anchors of each level.
        assigner: decides which anchors are trained on which objects.
        coder: between boxes and the values of the head.
        classification_loss: called once per level with logits (B * A, K, H, W), labels (B * A, H, W) and `normalizer`,
            as one batch for its statistics.
        scores: from logits to scores (N, C, ...).
        box_losses: by name; one that begins at a later epoch waits for `set_epoch`.
        inference: how detections are chosen.
        quality: what the quality output of the head is trained for; None if it has none.
        with_quality: whether the classification loss takes the IoU of the positives, like `QualityFocalLoss`.
        classifies_background: False leaves background anchors out of the classification loss (YOLOX, whose
            objectness separates them).
        predicts_to_assign: whether the assigner is a `DynamicAssigner`.
        legacy_pixels: whether boxes of targets and detections end on pixel x2 (see `equigrad.models.detection.boxes`);
            the other parts need the same setting.
    """

    def __init__(
        self,
        pyramid: nn.Module,
        head: nn.Module,
        grid: AnchorGrid,
        assigner: StaticAssigner | DynamicAssigner,
        coder: BoxCoder,
        classification_loss: nn.Module,
        scores: Scores,
        *,
        box_losses: Mapping[str, BoxLoss],
        inference: DenseInference,
        quality: QualityBranch | None = None,
        with_quality: bool = False,
        classifies_background: bool = True,
        predicts_to_assign: bool = False,
        legacy_pixels: bool = False,
    ) -> None:
        super().__init__()
        if imagenet_channels(pyramid):
            raise ValueError("backbone.imagenet_features is for two-stage detectors; leave it false")
        self.pyramid = pyramid
        self.head = head
        self.grid = grid
        self.assigner: Callable[..., Assignment] = assigner
        self.coder = coder
        self.classification_loss = classification_loss
        self.scores = scores
        self.box_losses = dict(box_losses)
        self.set_epoch(0)
        self.inference = inference
        self.quality = quality
        self.with_quality = with_quality
        self.classifies_background = classifies_background
        self.predicts_to_assign = predicts_to_assign
        self.legacy_pixels = legacy_pixels

    def set_epoch(self, epoch: int) -> None:
        """Choose the box losses of an epoch, counted from 0; the training calls it."""
        self.present_box_losses = {name: loss for name, loss in self.box_losses.items() if epoch >= loss.first_epoch}

    def outputs(self, images: Tensor) -> list[LevelOutput]:
        """Output of the head for images (B, 3, H, W), level by level."""
        outputs: list[LevelOutput] = self.head(self.pyramid(images))
        return outputs

    def forward(
        self, images: Tensor, targets: Sequence[Target] | None = None
    ) -> dict[str, Tensor] | list[dict[str, Tensor]]:
        """In training the losses, otherwise the detections of every image in its own coordinates.

        Args:
            images: (B, 3, H, W).
            targets: of each image `boxes` (G, 4) and `labels` (G,) for training; in evaluation `image_size`, height
                and width without padding, at which boxes are cut.
        """
        check_targets(images, targets, training=self.training)
        outputs = self.outputs(images)
        if self.training and targets is not None:
            return self.losses(outputs, targets)
        return self.detections(outputs, image_sizes(images, targets))

    def detections(
        self, outputs: Sequence[LevelOutput], image_sizes: Sequence[tuple[int, int]]
    ) -> list[dict[str, Tensor]]:
        """Boxes (n, 4), scores (n,) and labels (n,) of images of these sizes (height, width), best first."""
        return self.inference(outputs, self.anchors(outputs), self.coder, self.scores, image_sizes)

    def losses(self, outputs: Sequence[LevelOutput], targets: Sequence[Target]) -> dict[str, Tensor]:
        """Losses by name: `classification`, each box loss and, with a quality branch, `quality`."""
        anchors = self.anchors(outputs)
        assignments = self.assignments(outputs, anchors, targets)
        labels = torch.stack([assignment.labels for assignment in assignments])  # (B, P)
        # Only once, because the host waits here until the device has counted them.
        rows = (labels >= 0).flatten().nonzero()[:, 0]  # of the positives, among B * P
        positives = self._positives(outputs, anchors, assignments, targets, rows)
        quality = None if self.quality is None else self.quality.target(positives).detach()
        weights = torch.ones_like(positives.targets[:, 0]) if quality is None else quality  # (n,)
        num_positive, sum_of_weights = average_over_ranks(torch.stack([(labels >= 0).sum(), weights.sum()]))

        level_targets = self._classification_targets(outputs, labels, positives, rows)
        level_losses = []
        # One batch: every level has the weights of earlier steps, and the statistics move once.
        with one_batch(self.classification_loss, joins=True):
            for output, target in zip(outputs, level_targets, strict=True):
                logits = class_logits(output, self.grid.num_anchors)
                level_losses.append(self.classification_loss(logits, *target, normalizer=num_positive))
                del logits  # a copy if the maps are channels-last: not two levels at once
        losses = {"classification": torch.stack(level_losses).sum()}

        for name, loss in self.present_box_losses.items():
            each = loss(positives)
            losses[name] = (each * weights).sum() / sum_of_weights if loss.is_weighted else each.sum() / num_positive
        if self.quality is not None and quality is not None:
            losses["quality"] = self._quality_loss(outputs, labels, rows, quality, self.quality) / num_positive
        return {name: loss.float() for name, loss in losses.items()}

    def anchors(self, outputs: Sequence[LevelOutput]) -> list[Tensor]:
        """Anchors (H * W * A, 4) of each level."""
        sizes = [(output.logits.shape[2], output.logits.shape[3]) for output in outputs]
        return self.grid(sizes, outputs[0].logits.device)

    def assignments(
        self, outputs: Sequence[LevelOutput], anchors: list[Tensor], targets: Sequence[Target]
    ) -> list[Assignment]:
        """What the anchors are trained for, image by image; neither losses nor statistics are involved."""
        seen: Sequence[Any] = [anchors] * len(targets)
        if self.predicts_to_assign:
            seen = image_predictions(outputs, anchors, self.coder)
        with torch.no_grad():
            return [
                self.assigner(what, target["boxes"], target["labels"])
                for what, target in zip(seen, targets, strict=True)
            ]

    def _positives(
        self,
        outputs: Sequence[LevelOutput],
        anchors: list[Tensor],
        assignments: Sequence[Assignment],
        targets: Sequence[Target],
        rows: Tensor,
    ) -> Positives:
        values = join([output.boxes for output in outputs], 4).flatten(0, 1).index_select(0, rows)
        references = torch.cat(anchors)
        references = references[rows % len(references)]
        boxes = [target["boxes"] for target in targets]
        firsts = accumulate(map(len, boxes[:-1]), initial=0)  # index of the first object of each image
        matched = torch.cat([each.matched + first for each, first in zip(assignments, firsts, strict=True)])
        objects = torch.cat(boxes)[matched[rows]]
        return Positives(references, values, self.coder.decode(references, values), objects)

    def _classification_targets(
        self, outputs: Sequence[LevelOutput], labels: Tensor, positives: Positives, rows: Tensor
    ) -> list[tuple[Tensor, ...]]:
        """What the classification loss takes besides the logits of a level: labels and, if needed, quality."""
        num_anchors = self.grid.num_anchors
        if not self.classifies_background:
            labels = labels.masked_fill(labels == BACKGROUND, IGNORE)
        level_labels = split(labels, outputs, num_anchors)
        if not self.with_quality:
            return [(level,) for level in level_labels]
        overlaps = iou_quality(positives, legacy_pixels=self.legacy_pixels).detach().clamp(0, 1)
        quality = overlaps.new_zeros(labels.numel()).index_copy_(0, rows, overlaps).view_as(labels)
        return list(zip(level_labels, split(quality, outputs, num_anchors), strict=True))

    def _quality_loss(
        self, outputs: Sequence[LevelOutput], labels: Tensor, rows: Tensor, quality: Tensor, branch: QualityBranch
    ) -> Tensor:
        """Sum of the cross-entropy of the quality logits; the caller divides it."""
        logits = join_quality(outputs)
        if logits is None:
            raise ValueError("the head has no quality output, but the detector is to train one")
        positive_logits = logits.flatten().index_select(0, rows).to(quality.dtype)
        loss = F.binary_cross_entropy_with_logits(positive_logits, quality, reduction="sum")
        if branch.on_background:
            background = (labels == BACKGROUND).flatten().nonzero()[:, 0]
            loss = loss + F.softplus(logits.flatten().index_select(0, background).to(quality.dtype)).sum()
        return branch.weight * loss
