"""FCOS* (Tian et al. 2019): points instead of anchors, with the later improvements of its authors."""

from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from equigrad.models.detection.anchors import AnchorGrid
from equigrad.models.detection.assignment.centre import CentreAssigner
from equigrad.models.detection.box_coders import DistanceCoder
from equigrad.models.detection.one_stage.detector import DenseDetector
from equigrad.models.detection.one_stage.head import DenseHead
from equigrad.models.detection.one_stage.inference import DenseInference
from equigrad.models.detection.one_stage.losses import OverlapLoss, QualityBranch, centreness, generalized_iou_loss
from equigrad.models.detection.pyramids.shape import pyramid_shape
from equigrad.models.scores import Scores


def fcos(
    pyramid: nn.Module,
    num_classes: int,
    classification_loss: nn.Module,
    scores: Scores,
    *,
    with_quality: bool = False,
    prior: float = 0.01,
    size_ranges: Sequence[tuple[float, float]] | None = None,
    torchvision_points: bool = False,
) -> DenseDetector:
    """FCOS with centre sampling, distances in strides, centre-ness on the box tower and GIoU; with `FocalLoss()`.

    Arguments are those of `DenseDetector`; `size_ranges`, one for each level of the pyramid, is in `CentreAssigner`.
    None is up to eight strides for each level, which is published for strides of 8 to 128.
    With `torchvision_points` the points are the corners of cells and a score is the square root of category score
    times centre-ness: with torchvision's weights the detections are then torchvision's.
    """
    shape = pyramid_shape(pyramid)
    head = DenseHead(
        shape.num_channels,
        scores.num_logits(num_classes),
        num_levels=len(shape.strides),
        with_quality=True,
        with_scales=True,
        with_distances=True,
        prior=prior,
    )
    return DenseDetector(
        pyramid,
        head,
        AnchorGrid(shape.strides, centre_offset=0.0 if torchvision_points else 0.5),
        CentreAssigner(radius=1.5, size_ranges=size_ranges or _size_ranges(shape.strides)),
        DistanceCoder(),
        classification_loss,
        scores,
        box_losses={"box": OverlapLoss(generalized_iou_loss, is_weighted=True)},
        inference=DenseInference(nms_threshold=0.6, square_root=torchvision_points),
        quality=QualityBranch(centreness),
        with_quality=with_quality,
    )


def _size_ranges(strides: Sequence[int]) -> list[tuple[float, float]]:
    limits = [0.0, *(8.0 * stride for stride in strides[:-1]), float("inf")]
    return list(pairwise(limits))
