"""Assignment: which anchor is trained on which object of an image. Nothing here has a gradient.

Static assigners have the signature `assigner(anchors_per_level, boxes, labels) -> Assignment` for one image: anchors
(n_l, 4) of each level, objects (G, 4) with labels (G,), G may be 0. The order of objects matters only for exact ties,
which go to the lowest index on every device.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from equigrad.labels import BACKGROUND, IGNORE
from equigrad.models.detection.boxes import at_least_float32, pairwise_iou

BLOCK = 2**20  # elements of a pairwise matrix held at once: small enough for a cache, few calls for a GPU


class Assignment(NamedTuple):
    """What the P anchors of an image, all levels joined in order, are trained for."""

    labels: Tensor
    """(P,) category, BACKGROUND or IGNORE."""

    matched: Tensor
    """(P,) index of the object; -1 without one."""

    @property
    def positives(self) -> Tensor:
        """Indices (N,) of the anchors that are assigned to an object, in order."""
        return self.labels.ge(0).nonzero()[:, 0]


def assign(matched: Tensor, labels: Tensor) -> Assignment:
    """Assignment of anchors matched (P,) with objects of labels (G,); those with -1 are background."""
    if not len(labels):
        return Assignment(torch.full_like(matched, BACKGROUND), matched)
    # Computed for all anchors: selecting those with an object would make the host wait for the device.
    looked_up = labels.to(matched.dtype)[matched.clamp(min=0)]
    return Assignment(looked_up.masked_fill_(matched < 0, BACKGROUND), matched)


def all_background(num_anchors: int, labels: Tensor) -> Assignment:
    """Assignment of an image without objects, on the device of its empty labels."""
    return assign(torch.full((num_anchors,), -1, device=labels.device), labels)


def in_blocks(values: Tensor, num_objects: int) -> list[Tensor]:
    """Views of n anchors, or of what belongs to them (n, ...), that may be compared with all objects at once.

    RetinaNet has 200,000 anchors at 800 x 1333, and an image of LVIS several hundred objects.
    """
    rows = max(1, BLOCK // num_objects)
    return [values[start : start + rows] for start in range(0, max(1, len(values)), rows)]


def settle_claims(anchors: Tensor, objects: Tensor, scores: Tensor, num_anchors: int) -> Tensor:
    """Matched object (P,), -1 for an unclaimed anchor: each anchor goes to the claim with the highest score.

    Args:
        anchors: (K,) claimed anchor of each claim.
        objects: (K,) object that claims it; the lowest wins where scores are equal.
        scores: (K,) how well they fit; -inf withdraws a claim, so that none has to be filtered out before.
        num_anchors: P.
    """
    best = scores.new_full((num_anchors,), -torch.inf).scatter_reduce(0, anchors, scores, "amax")
    wins = (scores == best[anchors]) & (scores > -torch.inf)
    nobody = torch.iinfo(objects.dtype).max
    winners = objects.masked_fill(~wins, nobody)
    matched = objects.new_full((num_anchors,), nobody).scatter_reduce(0, anchors, winners, "amin")
    return matched.masked_fill(matched == nobody, -1)


def lowest_columns(values: Tensor, counts: Tensor, largest_count: int) -> tuple[Tensor, Tensor]:
    """The `counts` (G,) columns with the lowest values (G, n) of each row: columns (G, K), and which of them count.

    `topk` leaves open which of several equal values it takes. Rows in which that matters, because the last column taken
    equals the first one left, are sorted stably; centres of anchors often tie, but seldom exactly there.
    """
    num_columns = values.shape[1]
    lowest, columns = values.topk(min(largest_count + 1, num_columns), largest=False)
    wanted = torch.arange(lowest.shape[1], device=values.device) < counts[:, None]
    if lowest.shape[1] > 1:
        undecided = (wanted[:, :-1] & ~wanted[:, 1:] & (lowest[:, :-1] == lowest[:, 1:])).any(1).nonzero()[:, 0]
        columns[undecided] = values[undecided].sort(stable=True).indices[:, : columns.shape[1]]
    return columns[:, :largest_count], wanted[:, :largest_count]


class MaxIoUAssigner:
    """An anchor is assigned to the object it overlaps most, if it overlaps it enough (RetinaNet; candidates of PAA).

    Args:
        positive: least IoU of a positive.
        negative: anchors below are background; those between the two are ignored.
        low_quality: the anchor that overlaps an object most is positive too, however small the IoU, with the object
            *it* overlaps most. All such anchors if several tie.
    """

    def __init__(
        self,
        positive: float = 0.5,
        negative: float = 0.4,
        *,
        low_quality: bool = True,
    ) -> None:
        if not 0 < negative <= positive <= 1:
            raise ValueError(f"expected 0 < negative <= positive <= 1, got negative {negative}, positive {positive}")
        self.positive = positive
        self.negative = negative
        self.low_quality = low_quality

    @torch.no_grad()
    def __call__(self, anchors_per_level: Sequence[Tensor], boxes: Tensor, labels: Tensor) -> Assignment:
        """Assignment of the anchors of an image to its objects, boxes (G, 4) with labels (G,)."""
        anchors = torch.cat(list(anchors_per_level))
        if not len(boxes):
            return all_background(len(anchors), labels)
        best, matched, highest = self._best_matches(anchors, boxes)
        is_positive = best >= self.positive
        if self.low_quality:
            missed = (highest < self.positive).nonzero()[:, 0]  # of the others the best anchor is positive already
            if len(missed):
                is_positive |= self._reach(anchors, boxes[missed], highest[missed])
        assignment = assign(matched.masked_fill(~is_positive, -1), labels)
        assignment.labels.masked_fill_(~is_positive & (best >= self.negative), IGNORE)
        return assignment

    def _best_matches(self, anchors: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Highest IoU (P,) of each anchor, the object (P,) it has it with, and the highest IoU (G,) of each object."""
        # Written in place: small results, kept between large matrices that come and go, fragment the heap.
        best = at_least_float32(anchors.new_empty(len(anchors)))
        matched, highest = torch.empty_like(best, dtype=torch.int64), torch.zeros_like(boxes[:, 0], dtype=best.dtype)
        blocks = (in_blocks(values, len(boxes)) for values in (anchors, best, matched))
        for block, block_best, block_matched in zip(*blocks, strict=True):
            overlaps = pairwise_iou(block, boxes)
            block_matched.copy_(overlaps.argmax(1))
            block_best.copy_(overlaps.gather(1, block_matched[:, None])[:, 0])
            torch.maximum(highest, overlaps.amax(0), out=highest)
        return best, matched, highest

    def _reach(self, anchors: Tensor, boxes: Tensor, highest: Tensor) -> Tensor:
        """Whether an anchor has the highest IoU (G,) of some object, (P,). IoU are computed again to save memory."""
        goal = highest.masked_fill(highest == 0, torch.inf)  # an object that no anchor touches has no best anchor
        reached = torch.empty_like(anchors[:, 0], dtype=torch.bool)
        blocks = (in_blocks(values, len(boxes)) for values in (anchors, reached))
        for block, block_reached in zip(*blocks, strict=True):
            block_reached.copy_((pairwise_iou(block, boxes) == goal).any(1))
        return reached
