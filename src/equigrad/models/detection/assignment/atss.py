"""ATSS: every object sets its own threshold, from the overlaps of the anchors around its centre."""

from collections.abc import Sequence

import torch
from torch import Tensor

from equigrad.models.detection.assignment.max_iou import (
    Assignment,
    all_background,
    assign,
    lowest_columns,
    settle_claims,
)
from equigrad.models.detection.boxes import centres, margins, paired_iou

INSIDE = 0.01  # pixels by which the centre of a positive lies inside its object


class ATSSAssigner:
    """Adaptive training sample selection (Zhang et al. 2020).

    On each level the `num_candidates` anchors whose centres are nearest to the centre of an object are its candidates.
    Those whose IoU reaches mean + standard deviation (unbiased) of all its candidates, and whose centre lies inside it,
    are its positives. An anchor that several objects claim goes to the one it overlaps most; the rest is background.

    Args:
        num_candidates: k, *anchors* a level: 9 for one anchor a cell, 18 for two.
        legacy_pixels: boxes end on pixel x2 (see `boxes`).
    """

    def __init__(self, num_candidates: int = 9, *, legacy_pixels: bool = False) -> None:
        if num_candidates < 1:
            raise ValueError(f"num_candidates must be at least 1, got {num_candidates}")
        self.num_candidates = num_candidates
        self.legacy_pixels = legacy_pixels

    @torch.no_grad()
    def __call__(self, anchors_per_level: Sequence[Tensor], boxes: Tensor, labels: Tensor) -> Assignment:
        """Assignment of the anchors of an image to its objects, boxes (G, 4) with labels (G,)."""
        anchors = torch.cat(list(anchors_per_level))
        if not len(boxes):
            return all_background(len(anchors), labels)
        candidates = self._candidates(anchors_per_level, boxes)  # (G, K)
        # Only candidates are compared with their object: no matrix of all anchors and objects.
        overlaps = paired_iou(anchors[candidates], boxes[:, None], legacy_pixels=self.legacy_pixels)
        spread = overlaps.std(1, correction=min(1, overlaps.shape[1] - 1))
        threshold = overlaps.mean(1) + spread
        claims = (overlaps >= threshold[:, None]) & (margins(centres(anchors[candidates]), boxes[:, None]) > INSIDE)
        objects = torch.arange(len(boxes), device=boxes.device)[:, None].expand_as(candidates)
        scores = overlaps.masked_fill(~claims, -torch.inf)
        return assign(settle_claims(candidates.flatten(), objects.flatten(), scores.flatten(), len(anchors)), labels)

    def _candidates(self, anchors_per_level: Sequence[Tensor], boxes: Tensor) -> Tensor:
        """Indices (G, K), among all anchors, of the candidates of every object."""
        start, candidates = 0, []
        for anchors in anchors_per_level:
            counts = torch.full_like(boxes[:, 0], self.num_candidates)
            nearest, _ = lowest_columns(_squared_distances(boxes, anchors), counts, self.num_candidates)
            candidates.append(start + nearest)
            start += len(anchors)
        return torch.cat(candidates, 1)


def _squared_distances(boxes: Tensor, anchors: Tensor) -> Tensor:
    """Squared distances (G, n) of the centres of boxes (G, 4) and anchors (n, 4)."""
    (x, y), (anchor_x, anchor_y) = centres(boxes).unbind(-1), centres(anchors).unbind(-1)
    return (x[:, None] - anchor_x).square_().add_((y[:, None] - anchor_y).square_())
