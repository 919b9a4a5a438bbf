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
) -> DenseDetector:
    """RetinaNet with L1 on box deltas, published with `FocalLoss()`; arguments as in `DenseDetector`."""
    shape = pyramid_shape(pyramid)
    grid = AnchorGrid(shape.strides, OCTAVE_SCALES, ratios=(0.5, 1.0, 2.0))
    head = DenseHead(
        shape.num_channels,
        scores.num_logits(num_classes),
        grid.num_anchors,
        num_levels=len(shape.strides),
        group_norm=False,
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
