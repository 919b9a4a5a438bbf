"""From scores of all (RoI, category) pairs to the detections of an image, computing boxes for the best pairs only.

LVIS keeps every pair that scores more than 1e-4: of 1000 proposals and 1203 categories, up to 1.2 million boxes. NMS
within a category asks only about boxes of that category with higher scores. So the best pairs are enough if enough of
them survive, and the result is that of NMS on all pairs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torchvision.ops import nms  # type: ignore[import-untyped]

from equigrad.models.detection.boxes import sides

BoxesOf = Callable[[Tensor, Tensor], Tensor]
"""Boxes (n, 4), cut at the border of the image, of RoIs (n,) as the given categories (n,)."""


class Detections(NamedTuple):
    """Detections of one image, best first."""

    boxes: Tensor  # (n, 4)
    scores: Tensor  # (n,)
    labels: Tensor  # (n,)


@dataclass(frozen=True)
class RoIInference:
    """How detections are chosen.

    Args:
        score_threshold: pairs that score more are candidates.
        nms_threshold: IoU above which the lower of two boxes of a category is dropped.
        num_boxes: detections an image.
        smallest_side: boxes with a smaller side, in pixels, are dropped.
    """

    score_threshold: float = 1e-4
    nms_threshold: float = 0.5
    num_boxes: int = 300
    smallest_side: float = 0.01

    @torch.no_grad()
    def __call__(self, scores: Tensor, boxes_of: BoxesOf) -> Detections:
        """Detections among the pairs of scores (R, C)."""
        num_pairs = 4 * self.num_boxes
        while True:
            pairs, are_all = self._best_pairs(scores.flatten(), num_pairs)
            rows, labels = pairs // scores.shape[1], pairs % scores.shape[1]
            boxes = boxes_of(rows, labels)
            is_large = (sides(boxes) >= self.smallest_side).all(1)
            candidates = Detections(boxes[is_large], scores[rows, labels][is_large], labels[is_large])
            kept = classwise_nms(*candidates, self.nms_threshold)[: self.num_boxes]
            if are_all or len(kept) == self.num_boxes:
                return Detections(*(values[kept] for values in candidates))
            num_pairs *= 2

    def _best_pairs(self, scores: Tensor, count: int) -> tuple[Tensor, bool]:
        """Indices of the best pairs in ascending order, ties with the last included; and whether there are no more."""
        if count >= len(scores):
            return (scores > self.score_threshold).nonzero()[:, 0], True
        lowest = scores.topk(count, sorted=False).values.min()
        if lowest <= self.score_threshold:  # in the precision of the scores, as below
            return (scores > self.score_threshold).nonzero()[:, 0], True
        return (scores >= lowest).nonzero()[:, 0], False


def classwise_nms(boxes: Tensor, scores: Tensor, labels: Tensor, threshold: float) -> Tensor:
    """Indices of the boxes (n, 4), x and y >= 0, that NMS within each category keeps, best first.

    Categories are moved apart, so that one call serves all. In float32, as torchvision does it, a shift of 1202 images
    rounds boxes to eighths of a pixel; in float64 nothing is lost.
    """
    if not len(boxes):
        return labels
    apart = boxes.double()
    apart = apart + (labels * (apart.max().ceil() + 1))[:, None]
    kept: Tensor = nms(apart, scores.double(), threshold)
    return kept
