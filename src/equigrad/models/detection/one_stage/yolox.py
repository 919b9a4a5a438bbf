"""YOLOX (Ge et al. 2021), and YOLOX*, the variant of the paper that suits focal losses."""

from torch import Tensor, nn

from equigrad.models.detection.anchors import AnchorGrid
from equigrad.models.detection.assignment.atss import ATSSAssigner
from equigrad.models.detection.assignment.max_iou import Assignment
from equigrad.models.detection.assignment.simota import SimOTAAssigner
from equigrad.models.detection.box_coders import CentreCoder, DeltaCoder
from equigrad.models.detection.one_stage.atss import CELLS
from equigrad.models.detection.one_stage.detector import DenseDetector
from equigrad.models.detection.one_stage.inference import DenseInference
from equigrad.models.detection.one_stage.losses import (
    OverlapLoss,
    QualityBranch,
    ValueLoss,
    generalized_iou_loss,
    iou_quality,
    objectness,
    squared_iou_loss,
)
from equigrad.models.detection.one_stage.predictions import ImagePredictions
from equigrad.models.detection.one_stage.yolox_head import DecoupledHead
from equigrad.models.detection.pyramids.shape import pyramid_shape
from equigrad.models.scores import Scores


class TransportAssigner:
    """`SimOTAAssigner` on the predictions of a dense head.

    Args:
        assigner: what chooses by cost.
        num_classes: C; a logit beyond is no category.
    """

    def __init__(self, assigner: SimOTAAssigner, num_classes: int) -> None:
        self.assigner = assigner
        self.num_classes = num_classes

    def __call__(self, predictions: ImagePredictions, boxes: Tensor, labels: Tensor) -> Assignment:
        """Assignment of the cells of an image to its objects, boxes (G, 4) with labels (G,)."""
        assert predictions.quality is not None
        return self.assigner(
            predictions.anchors,
            boxes,
            labels,
            predictions.boxes,
            lambda cells: predictions.logits_at(cells)[:, : self.num_classes],
            predictions.quality,
        )


def yolox(
    pyramid: nn.Module,
    num_classes: int,
    classification_loss: nn.Module,
    scores: Scores,
    *,
    with_quality: bool = False,
    classifies_background: bool = False,
    prior: float = 0.01,
    first_l1_epoch: int = 285,
) -> DenseDetector:
    """YOLOX: SimOTA, objectness, 1 - IoU^2 of weight 5, and L1 in the last epochs.

    Args:
        pyramid: see `DenseDetector`.
        num_classes: C.
        classification_loss: see `DenseDetector`; published is binary cross-entropy with the IoU as soft label, which
            is `QualityFocalLoss(focus=0)` and `with_quality=True`.
        scores: decides how many logits a cell has.
        with_quality: whether the classification loss takes the IoU of the positives.
        classifies_background: whether background cells are negatives of all categories; published is False,
            because the objectness separates them. A focal loss needs True.
        prior: probability each category, and the objectness, start with.
        first_l1_epoch: epoch, counted from 0, that the L1 loss begins with; published are the last 15 of 300. The
            training loop sets the epoch with `set_epoch`.
    """
    shape = pyramid_shape(pyramid)
    coder = CentreCoder()
    return DenseDetector(
        pyramid,
        DecoupledHead(shape.num_channels, scores.num_logits(num_classes), num_levels=len(shape.strides), prior=prior),
        AnchorGrid(shape.strides),
        TransportAssigner(SimOTAAssigner(), num_classes),
        coder,
        classification_loss,
        scores,
        box_losses={
            "box": OverlapLoss(squared_iou_loss, weight=5.0),
            "l1": ValueLoss(coder, first_epoch=first_l1_epoch),
        },
        inference=DenseInference(nms_threshold=0.65),
        quality=QualityBranch(objectness, on_background=True),
        with_quality=with_quality,
        classifies_background=classifies_background,
        predicts_to_assign=True,
    )


def yolox_star(
    pyramid: nn.Module,
    num_classes: int,
    classification_loss: nn.Module,
    scores: Scores,
    *,
    with_quality: bool = False,
    prior: float = 0.001,
    scales: tuple[float, ...] = (3, 4),
) -> DenseDetector:
    """YOLOX*: anchors with ATSS in place of SimOTA, an IoU branch in place of objectness, GIoU + L1 in every epoch.

    Args:
        pyramid: see `DenseDetector`.
        num_classes: C.
        classification_loss: see `DenseDetector`; in the paper `EqualizedFocalLoss` or `EqualizedQualityFocalLoss`
            (and `with_quality=True`) with `focus_scale=4`.
        scores: decides how many logits an anchor has.
        with_quality: whether the classification loss takes the IoU of the positives.
        prior: probability each category, and the IoU, start with.
        scales: sizes of the anchors, in strides; k is 9 for each of them.
    """
    shape = pyramid_shape(pyramid)
    num_logits = scores.num_logits(num_classes)
    coder = DeltaCoder()
    return DenseDetector(
        pyramid,
        DecoupledHead(shape.num_channels, num_logits, len(scales), num_levels=len(shape.strides), prior=prior),
        AnchorGrid(shape.strides, scales),
        ATSSAssigner(CELLS * len(scales)),
        coder,
        classification_loss,
        scores,
        box_losses={"box": OverlapLoss(generalized_iou_loss, is_weighted=True), "l1": ValueLoss(coder)},
        inference=DenseInference(nms_threshold=0.65),
        quality=QualityBranch(iou_quality),
        with_quality=with_quality,
    )
