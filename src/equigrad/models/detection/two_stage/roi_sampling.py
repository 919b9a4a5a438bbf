"""Which regions of interest (RoIs) a step of the second stage learns from."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from equigrad.models.detection.assignment.max_iou import assign
from equigrad.models.detection.boxes import pairwise_iou


class RoISample(NamedTuple):
    """The sampled RoIs of one image."""

    boxes: Tensor  # (R, 4)
    labels: Tensor  # (R,) category, or BACKGROUND
    matched: Tensor  # (R,) index of the object, -1 for background

    def positives(self) -> "RoISample":
        """The RoIs that have a category."""
        rows = (self.matched >= 0).nonzero()[:, 0]
        return RoISample(self.boxes[rows], self.labels[rows], self.matched[rows])


@dataclass(frozen=True)
class RoISampler:
    """Samples RoIs at random among proposals and objects; if there are few positives, background fills the rest.

    Args:
        num_rois: maximum number of RoIs per image.
        positive_fraction: maximum share of them that have a category.
        threshold: minimum IoU with an object for a RoI to have its category.
    """

    num_rois: int = 512
    positive_fraction: float = 0.25
    threshold: float = 0.5

    @torch.no_grad()
    def __call__(self, proposals: Tensor, boxes: Tensor, labels: Tensor) -> RoISample:
        """RoIs among proposals (P, 4) and the objects of an image, boxes (G, 4) and labels (G,)."""
        candidates = torch.cat([proposals, boxes.to(proposals.dtype)])
        matched = self._match(candidates, boxes)
        most = int(self.num_rois * self.positive_fraction)
        positive = _sample(matched >= 0, most)
        negative = _sample(matched < 0, self.num_rois - len(positive))
        chosen = torch.cat([positive, negative]).sort().values
        labels, matched = assign(matched[chosen], labels)
        return RoISample(candidates[chosen], labels, matched)

    def _match(self, candidates: Tensor, boxes: Tensor) -> Tensor:
        if not len(boxes):
            return torch.full((len(candidates),), -1, dtype=torch.int64, device=candidates.device)
        overlap, matched = pairwise_iou(boxes, candidates).max(0)
        return matched.masked_fill(overlap < self.threshold, -1)


def _sample(is_candidate: Tensor, most: int) -> Tensor:
    """Indices of at most `most` candidates, chosen uniformly."""
    indices = is_candidate.nonzero()[:, 0]
    return indices[torch.randperm(len(indices), device=indices.device)[:most]]
