"""PAA (Kim and Lee 2020): anchors are chosen by their loss, with a mixture of two normal distributions."""

import torch.nn.functional as F
from torch import Tensor, nn

from equigrad.models.detection.anchors import AnchorGrid
from equigrad.models.detection.assignment.max_iou import Assignment
from equigrad.models.detection.assignment.paa import PAAAssigner
from equigrad.models.detection.box_coders import DeltaCoder
from equigrad.models.detection.one_stage.atss import atss_head
from equigrad.models.detection.one_stage.detector import DenseDetector
from equigrad.models.detection.one_stage.inference import DenseInference
from equigrad.models.detection.one_stage.losses import OverlapLoss, QualityBranch, generalized_iou_loss, iou_quality
from equigrad.models.detection.one_stage.predictions import ImagePredictions
from equigrad.models.detection.pyramids.shape import pyramid_shape
from equigrad.models.scores import Scores

BOX_WEIGHT = 1.3  # of the GIoU loss, in the loss and in the cost of an anchor
COST_FOCUS, COST_POSITIVE_BALANCE = 2.0, 0.25  # gamma and alpha_t of the focal loss in the cost; all as published


class CostAssigner:
    """`PAAAssigner` with the cost of an anchor as published: focal loss plus weighted GIoU loss.

    The classification loss of the detector is not used: calling it would change its statistics, its weights would make
    the choice of anchors depend on the gradient ratio of the category, and a quality focal loss needs the box first.

    Args:
        assigner: chooses by cost.
    """

    def __init__(self, assigner: PAAAssigner) -> None:
        self.assigner = assigner

    def __call__(self, predictions: ImagePredictions, boxes: Tensor, labels: Tensor) -> Assignment:
        """Assignment of the anchors of an image to its objects, boxes (G, 4) with labels (G,)."""
        candidates = self.assigner.candidates(predictions.anchors, boxes, labels)
        anchors = candidates.positives
        overlap_loss = generalized_iou_loss(predictions.boxes[anchors], boxes[candidates.matched[anchors]])
        costs = focal_costs(predictions.logits_at(anchors), candidates.labels[anchors]) + BOX_WEIGHT * overlap_loss
        return self.assigner(candidates, costs, [len(level) for level in predictions.anchors], labels)


def focal_costs(logits: Tensor, labels: Tensor) -> Tensor:
    """Focal loss (n,) of logits (n, K), summed over categories, of anchors that all have a category (n,)."""
    logits = logits.float()
    negative = (1 - COST_POSITIVE_BALANCE) * logits.sigmoid() ** COST_FOCUS * F.softplus(logits)
    own = logits.gather(1, labels[:, None])
    own_loss = COST_POSITIVE_BALANCE * (-own).sigmoid() ** COST_FOCUS * F.softplus(-own)
    return (negative.sum(1, keepdim=True) - negative.gather(1, labels[:, None]) + own_loss).squeeze(1)


def paa(
    pyramid: nn.Module,
    num_classes: int,
    classification_loss: nn.Module,
    scores: Scores,
    *,
    with_quality: bool = False,
    prior: float = 0.01,
) -> DenseDetector:
    """PAA with an IoU head and score voting, published with `FocalLoss()`; otherwise built like ATSS.

    Arguments are in `equigrad.models.detection.one_stage.detector`.
    """
    return DenseDetector(
        pyramid,
        atss_head(pyramid, scores.num_logits(num_classes), prior),
        AnchorGrid(pyramid_shape(pyramid).strides, (8,)),
        CostAssigner(PAAAssigner(num_candidates=9, least_overlap=0.1)),
        DeltaCoder((0.1, 0.2)),
        classification_loss,
        scores,
        box_losses={"box": OverlapLoss(generalized_iou_loss, weight=BOX_WEIGHT, is_weighted=True)},
        inference=DenseInference(nms_threshold=0.6, square_root=True, score_voting=True),
        quality=QualityBranch(iou_quality, weight=0.5),
        with_quality=with_quality,
        predicts_to_assign=True,
    )
