"""RetinaNet (Lin et al. 2017): nine anchors at each location, matched by IoU."""

from torch import nn

from equigrad.models.detection.anchors import OCTAVE_SCALES, AnchorGrid
from equigrad.models.detection.assignment.max_iou import MaxIoUAssigner
from equigrad.models.detection.box_coders import DeltaCoder
from equigrad.models.detection.one_stage.detector import DenseDetector
from equigrad.models.detection.one_stage.head import DenseHead
from equigrad.models.detection.one_stage.inference import DenseInference
from equigrad.models.detection.one_stage.losses import ValueLoss
from equigrad.models.detection.pyramids.shape import pyramid_shape
from equigrad.models.scores import Scores


def retinanet(
    pyramid: nn.Module,
    num_classes: int,
    classification_loss: nn.Module,
    scores: Scores,
    *,
    with_quality: bool = False,
    prior: float = 0.01,
    group_norm: bool = False,
    torchvision_anchors: bool = False,
) -> DenseDetector:
    """RetinaNet with L1 on box deltas, published with `FocalLoss()`; other arguments as in `DenseDetector`.

    Args:
        pyramid: this and the next ones as in `equigrad.models.detection.one_stage.detector`.
        num_classes: C.
        classification_loss: from logits to loss.
        scores: from logits to scores.
        with_quality: whether the loss takes the IoU.
        prior: probability each category starts with.
        group_norm: in the towers, as in torchvision's version 2.
        torchvision_anchors: around the corners of cells, in whole pixels; with torchvision's weights the detections are
            then torchvision's.
    """
    shape = pyramid_shape(pyramid)
    grid = AnchorGrid(
        shape.strides,
        OCTAVE_SCALES,
        ratios=(0.5, 1.0, 2.0),
        centre_offset=0.0 if torchvision_anchors else 0.5,
        whole_pixels=torchvision_anchors,
    )
    head = DenseHead(
        shape.num_channels,
        scores.num_logits(num_classes),
        grid.num_anchors,
        num_levels=len(shape.strides),
        group_norm=group_norm,
        prior=prior,
    )
    coder = DeltaCoder()
    return DenseDetector(
        pyramid,
        head,
        grid,
        MaxIoUAssigner(0.5, 0.4),
        coder,
        classification_loss,
        scores,
        box_losses={"box": ValueLoss(coder)},
        inference=DenseInference(nms_threshold=0.5),
        with_quality=with_quality,
    )
