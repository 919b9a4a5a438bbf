"""Semantic segmenters, made of a backbone, a head, losses and scores that are passed in.

    backbone = dilated_resnet50("resnet50_v1c.pth")
    loss, auxiliary_loss = equigrad.SoftmaxEqualizationLoss(150), equigrad.CrossEntropyLoss()
    model = build_segmenter(backbone, PSPHead, 150, loss, equigrad.SoftmaxScores(), auxiliary_loss=auxiliary_loss)
    losses = model(images, {"labels": labels})       # training: {"loss": ..., "auxiliary_loss": ...}
    predictions = model(images)                      # evaluation: [{"labels": (H, W), "scores": (H, W)}, ...]

Paths of parts, for `frozen` and for rules of the optimiser, are `backbone`, `head`, `classification_loss.loss` and
`auxiliary.head`, `auxiliary.classification_loss.loss`; those inside a backbone are in its module.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from equigrad.labels import IGNORE
from equigrad.models.backbones.encoder_maps import EncoderChannels, EncoderMaps
from equigrad.models.counted_samples import num_counted
from equigrad.models.scores import Scores
from equigrad.models.segmentation.fcn import FCNHead, PixelClassifier
from equigrad.models.segmentation.sliding_window import Network, PixelLabels, PixelScores, WholeImage
from equigrad.models.segmentation.upsampled_loss import LabelResolutionLoss

VOID = 255
"""In a label map: a pixel without label. The losses see IGNORE there."""

Head = Callable[[EncoderChannels, int], nn.Module]
"""From the channels of an encoder and the number of logits to a head, such as `PSPHead` or a `partial` of it."""

Resolution = Callable[[nn.Module], nn.Module]
"""From a loss to one of decoder logits against full-size labels; see `equigrad.models.segmentation.upsampled_loss`."""

Inference = Callable[[Network, Tensor, PixelScores], PixelLabels]
"""See `equigrad.models.segmentation.sliding_window`."""


class Auxiliary(nn.Module):
    """A second head that trains the middle of the backbone, and is not used afterwards.

    Args:
        head: from maps to logits (N, K, h, w).
        loss: its own: statistics of this head do not mix with those of the other. A plain cross-entropy has none.
        weight: weight of the loss.
        resolution: at which size logits and labels are compared.
    """

    def __init__(
        self, head: nn.Module, loss: nn.Module, *, weight: float = 0.4, resolution: Resolution = LabelResolutionLoss
    ) -> None:
        super().__init__()
        self.head = head
        self.classification_loss = resolution(loss)
        self.weight = weight

    def forward(self, maps: EncoderMaps) -> Tensor:
        """Logits (N, K, h, w) of the maps of the backbone."""
        logits: Tensor = self.head(maps)
        return logits


class Segmenter(nn.Module):
    """Predicts one category for each pixel.

    Args:
        backbone: from images (N, 3, H, W) to `EncoderMaps`; it normalises the images itself.
        head: from maps to logits (N, K, h, w).
        loss: called with logits (N, K, ...) and labels (N, ...) in which VOID pixels are IGNORE.
        scores: from logits to scores (N, C, ...).
        auxiliary: a second head with its own loss, or None.
        resolution: at which size logits and labels are compared.
        inference: how an image is shown to the network in evaluation.
    """

    def __init__(
        self,
        backbone: nn.Module,
        head: nn.Module,
        loss: nn.Module,
        scores: Scores,
        *,
        auxiliary: Auxiliary | None = None,
        resolution: Resolution = LabelResolutionLoss,
        inference: Inference | None = None,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head
        self.classification_loss = resolution(loss)
        self.scores = scores
        self.auxiliary = auxiliary
        self.inference = WholeImage() if inference is None else inference

    def logits(self, images: Tensor) -> Tensor:
        """Logits (N, K, h, w) at the decoder's resolution."""
        logits: Tensor = self.head(self.backbone(images))
        return logits

    def forward(
        self, images: Tensor | Sequence[Tensor], targets: Mapping[str, Any] | None = None
    ) -> dict[str, Tensor] | list[dict[str, Tensor]]:
        """In training the losses, otherwise labels and scores of every image at its own size.

        Args:
            images: (N, 3, H, W); in evaluation also a sequence of (3, H, W) of any sizes, predicted one by one.
            targets: for training, `targets["labels"]` (N, H, W), uint8 or int64, with VOID where a pixel has no label;
                with a `targets["normalizer"]` the losses are divided by it and not by the number of labelled pixels.
        """
        if not self.training:
            batches = [images] if isinstance(images, Tensor) else [image[None] for image in images]
            return [prediction for batch in batches for prediction in self._predict(batch)]
        if targets is None:
            raise ValueError("training needs targets; call eval() for predictions")
        if not isinstance(images, Tensor):
            raise ValueError(f"training needs images as one Tensor (N, 3, H, W), got {type(images).__name__}")
        labels = _labels_with_ignore(images, targets["labels"])
        options = {"normalizer": targets["normalizer"]} if "normalizer" in targets else {}
        maps = self.backbone(images)
        losses = {"loss": self.classification_loss(self.head(maps), labels, **options)}
        if self.auxiliary is not None:
            auxiliary_loss = self.auxiliary.classification_loss(self.auxiliary(maps), labels, **options)
            losses["auxiliary_loss"] = self.auxiliary.weight * auxiliary_loss
        return losses

    def num_counted(self, targets: Mapping[str, Any]) -> float | None:
        """Number of pixels that every loss is the mean of; None if they are not means over pixels."""
        labels = targets["labels"].long().masked_fill(targets["labels"] == VOID, IGNORE)
        losses = [self.classification_loss]
        if self.auxiliary is not None:
            losses.append(self.auxiliary.classification_loss)
        first, *others = [num_counted(loss, labels) for loss in losses]
        return first if all(other == first for other in others) else None

    def _predict(self, images: Tensor) -> list[dict[str, Tensor]]:
        labels, scores = self.inference(self.logits, images, self.scores)
        return [
            {"labels": image_labels, "scores": image_scores}
            for image_labels, image_scores in zip(labels, scores, strict=True)
        ]


def build_segmenter(
    backbone: nn.Module,
    head: Head,
    num_classes: int,
    loss: nn.Module,
    scores: Scores,
    *,
    auxiliary_loss: nn.Module | None = None,
    auxiliary_weight: float = 0.4,
    bias_prior: float | None = None,
    resolution: Resolution = LabelResolutionLoss,
    inference: Inference | None = None,
) -> Segmenter:
    """A segmenter of `num_classes` categories on a backbone with the attribute `channels`.

    Args:
        backbone: see `Segmenter`.
        head: `PSPHead`, `DeepLabV3PlusHead`, or a `partial` of either.
        num_classes: C, at most 255: VOID is no category.
        loss: see `Segmenter`.
        scores: decides how many logits a pixel has.
        auxiliary_loss: loss of an `FCNHead`; None is no auxiliary head.
        auxiliary_weight: weight of its loss.
        bias_prior: probability each sigmoid starts with, such as 0.001; None starts with a bias of 0.
        resolution: see `Segmenter`; also that of the auxiliary head.
        inference: see `Segmenter`.
    """
    channels = getattr(backbone, "channels", None)
    if not isinstance(channels, EncoderChannels):
        raise ValueError(f"backbone must have EncoderChannels as channels, got {type(backbone).__name__} without them")
    if not 1 <= num_classes <= VOID:
        raise ValueError(f"num_classes must be 1 ... {VOID}, because label {VOID} is void, got {num_classes}")
    num_logits = scores.num_logits(num_classes)
    auxiliary = None
    if auxiliary_loss is not None:
        auxiliary_head = FCNHead(channels, num_logits)
        auxiliary = Auxiliary(auxiliary_head, auxiliary_loss, weight=auxiliary_weight, resolution=resolution)
    model = Segmenter(
        backbone,
        head(channels, num_logits),
        loss,
        scores,
        auxiliary=auxiliary,
        resolution=resolution,
        inference=inference,
    )
    if bias_prior is not None:
        for module in model.modules():
            if isinstance(module, PixelClassifier):
                module.set_prior(bias_prior)
    return model


def _labels_with_ignore(images: Tensor, labels: Tensor) -> Tensor:
    """Labels (N, H, W) as int64, IGNORE where they are VOID."""
    expected = (images.shape[0], *images.shape[2:])
    if labels.shape != expected or labels.dtype not in (torch.uint8, torch.int64):
        raise ValueError(
            f"labels must be uint8 or int64 of shape {tuple(expected)}, got {labels.dtype} of {tuple(labels.shape)}"
        )
    return labels.long().masked_fill(labels == VOID, IGNORE)
