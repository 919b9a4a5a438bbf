"""ATSS (Zhang et al. 2020), and the improved baseline of the paper (Sec. 5.2.2) that EFL is trained with."""

from functools import partial

from torch import nn

from equigrad.models.detection.anchors import AnchorGrid
from equigrad.models.detection.assignment.atss import ATSSAssigner
from equigrad.models.detection.box_coders import DeltaCoder
from equigrad.models.detection.one_stage.detector import DenseDetector
from equigrad.models.detection.one_stage.head import DenseHead
from equigrad.models.detection.one_stage.inference import DenseInference
from equigrad.models.detection.one_stage.losses import (
    OverlapLoss,
    QualityBranch,
    centreness,
    generalized_iou_loss,
    iou_quality,
)
from equigrad.models.detection.pyramids.shape import pyramid_shape
from equigrad.models.scores import Scores

CELLS = 9
"""Nearest cells of each level that are candidates of an object; k is their number of anchors."""


def atss(
    pyramid: nn.Module,
    num_classes: int,
    classification_loss: nn.Module,
    scores: Scores,
    *,
    with_quality: bool = False,
    prior: float = 0.01,
) -> DenseDetector:
    """ATSS as published, with `FocalLoss()`: one anchor at each location, k = 9, centre-ness, GIoU of weight 2.

    Arguments are in `equigrad.models.detection.one_stage.detector`.
    """
    return DenseDetector(
        pyramid,
        atss_head(pyramid, scores.num_logits(num_classes), prior),
        AnchorGrid(pyramid_shape(pyramid).strides, (8,)),
        ATSSAssigner(CELLS),
        DeltaCoder((0.1, 0.2)),
        classification_loss,
        scores,
        box_losses={"box": OverlapLoss(generalized_iou_loss, weight=2.0, is_weighted=True)},
        inference=DenseInference(nms_threshold=0.6),
        quality=QualityBranch(centreness),
        with_quality=with_quality,
    )


def atss_head(pyramid: nn.Module, num_logits: int, prior: float) -> DenseHead:
    """Towers with group normalisation, one anchor at each location, a quality output and a box scale for each level."""
    num_channels, strides = pyramid_shape(pyramid)
    levels = len(strides)
    return DenseHead(num_channels, num_logits, num_levels=levels, with_quality=True, with_scales=True, prior=prior)


def improved_atss(
    pyramid: nn.Module,
    num_classes: int,
    classification_loss: nn.Module,
    scores: Scores,
    *,
    with_quality: bool = False,
    prior: float = 0.001,
    scales: tuple[float, ...] = (6, 8),
    legacy_pixels: bool = False,
) -> DenseDetector:
    """The improved baseline: ATSS with an IoU branch and two anchors at each location; the paper trains it with EFL.

    Args:
        pyramid: this and the next ones as in `equigrad.models.detection.one_stage.detector`.
        num_classes: C.
        classification_loss: from logits to loss.
        scores: from logits to scores.
        with_quality: whether the loss takes the IoU.
        prior: 0.001 in the paper.
        scales: sizes of the anchors, in strides; k is 9 for each of them.
        legacy_pixels: True for targets whose boxes end on pixel x2, as in the released code of the paper; the
            detections then do, too (see `equigrad.models.detection.boxes`).
    """
    shape = pyramid_shape(pyramid)
    head = DenseHead(
        shape.num_channels,
        scores.num_logits(num_classes),
        len(scales),
        num_levels=len(shape.strides),
        with_quality=True,
        prior=prior,
    )
    return DenseDetector(
        pyramid,
        head,
        AnchorGrid(shape.strides, scales, legacy_pixels=legacy_pixels),
        ATSSAssigner(CELLS * len(scales), legacy_pixels=legacy_pixels),
        DeltaCoder(legacy_pixels=legacy_pixels),
        classification_loss,
        scores,
        box_losses={"box": OverlapLoss(partial(generalized_iou_loss, legacy_pixels=legacy_pixels), is_weighted=True)},
        inference=DenseInference(nms_threshold=0.5, num_candidates=6000, legacy_pixels=legacy_pixels),
        quality=QualityBranch(partial(iou_quality, legacy_pixels=legacy_pixels)),
        with_quality=with_quality,
        legacy_pixels=legacy_pixels,
    )
