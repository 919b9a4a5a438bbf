"""Matching by the rules of the OpenImages Challenge: ordinary boxes by IoU, group-of boxes by the covered area.

hotcoco is not used here: its AP has COCO's 101 recall levels where the challenge takes the area under the whole curve,
and a detection whose best box is taken may find another one there.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equigrad.evaluation.detection.annotations import Flags, Floats, Ints

IOU_THRESHOLD = 0.5
PAIRS_AT_ONCE = 1 << 20  # bounds the memory of IoUs

Expansion = Callable[[ArrayLike], tuple[Ints, Ints]]  # labels -> row each comes from, and labels


@dataclass(frozen=True, eq=False)
class Boxes:
    """N detections, or N annotated boxes."""

    corners: Floats  # (N, 4) x1, y1, x2, y2
    labels: Ints  # (N,)
    images: Ints  # (N,) indices of images
    scores: Floats  # (N,); 1 for annotated boxes

    @classmethod
    def joined(cls, parts: Sequence["Boxes"]) -> "Boxes":
        """All parts in one, in order."""
        empty = cls(np.zeros((0, 4)), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
        columns = zip(*(vars(part).values() for part in (empty, *parts)), strict=True)
        return cls(*(np.concatenate(column) for column in columns))

    def take(self, which: NDArray[Any]) -> "Boxes":
        """The boxes with these indices or flags."""
        return Boxes(self.corners[which], self.labels[which], self.images[which], self.scores[which])

    def expanded(self, expand: Expansion) -> "Boxes":
        """The boxes repeated for all labels that `expand` gives for theirs."""
        rows, labels = expand(self.labels)
        return Boxes(self.corners[rows], labels, self.images[rows], self.scores[rows])

    def cells(self, num_images: int) -> Ints:
        """The cell of each box, (N,): one number for each category in each image."""
        return self.labels * num_images + self.images

    @property
    def sides(self) -> Floats:
        """(N, 4) x, y, width, height."""
        return np.concatenate([self.corners[:, :2], self.corners[:, 2:] - self.corners[:, :2]], 1)


def match_detections(detections: Boxes, boxes: Boxes, groups: Boxes, num_images: int) -> tuple[Flags, Flags]:
    """Which detections are true positives, and which count at all, (D,) each.

    Every detection is matched with the ordinary box of the highest IoU, at least 0.5; the first detection of a box is a
    true positive. Of the others, those with at least half of their area in a group-of box belong to the group: the
    first is a true positive, the rest are ignored.

    Args:
        detections: sorted by cell and then by descending score.
        boxes: ordinary boxes, sorted by cell.
        groups: group-of boxes, sorted by cell.
        num_images: I, the number of images.
    """
    is_true, _ = _first_finders(detections, boxes, num_images, by_own_area=False)
    others = np.flatnonzero(~is_true)
    is_first, is_inside = _first_finders(detections.take(others), groups, num_images, by_own_area=True)
    is_counted = np.ones(len(is_true), np.bool_)
    is_counted[others] = ~is_inside | is_first
    is_true[others] = is_first
    return is_true, is_counted


def _first_finders(detections: Boxes, boxes: Boxes, num_images: int, *, by_own_area: bool) -> tuple[Flags, Flags]:
    """Which detections are the first to find their best box, and which have a best box at all, (D,) each."""
    finders, found, overlaps = _overlapping(detections, boxes, num_images, by_own_area=by_own_area)
    best_first = np.lexsort((found, -overlaps, finders))
    finders, best = np.unique(finders[best_first], return_index=True)
    _, firsts = np.unique(found[best_first][best], return_index=True)
    is_finder, is_first = np.zeros((2, len(detections.labels)), np.bool_)
    is_finder[finders] = True
    is_first[finders[firsts]] = True
    return is_first, is_finder


def _overlapping(detections: Boxes, boxes: Boxes, num_images: int, *, by_own_area: bool) -> tuple[Ints, Ints, Floats]:
    """Pairs of a detection and a box of the same cell that overlap enough: indices of both, and the overlap."""
    cells, box_cells = detections.cells(num_images), boxes.cells(num_images)
    starts = np.searchsorted(box_cells, cells)
    counts = np.searchsorted(box_cells, cells, side="right") - starts
    sides, box_sides = detections.sides, boxes.sides
    parts = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))]
    for begin, end in _chunks(counts):
        finders = np.repeat(np.arange(begin, end), counts[begin:end])
        ends = np.cumsum(counts[begin:end])
        found = np.repeat(starts[begin:end] - ends + counts[begin:end], counts[begin:end]) + np.arange(len(finders))
        overlaps = box_overlap(sides[finders], box_sides[found], by_own_area=by_own_area)
        near = overlaps >= IOU_THRESHOLD
        parts.append((finders[near], found[near], overlaps[near]))
    finders, found, overlaps = (np.concatenate(column) for column in zip(*parts, strict=True))
    return finders, found, overlaps


def _chunks(counts: Ints) -> Iterator[tuple[int, int]]:
    """Ranges of detections with about `PAIRS_AT_ONCE` pairs."""
    pairs = np.cumsum(counts)
    wanted = np.arange(PAIRS_AT_ONCE, pairs[-1] if len(pairs) else 0, PAIRS_AT_ONCE)
    yield from pairwise(np.unique([0, *np.searchsorted(pairs, wanted), len(counts)]).tolist())


def box_overlap(boxes: Floats, others: Floats, *, by_own_area: bool) -> Floats:
    """IoU of pairs of boxes (P, 4) as x, y, width, height, or the share of the first that lies in the second."""
    low = np.maximum(boxes[:, :2], others[:, :2])
    high = np.minimum(boxes[:, 2:] + boxes[:, :2], others[:, 2:] + others[:, :2])
    sides = np.maximum(high - low, 0)
    shared = sides[:, 0] * sides[:, 1]
    area = boxes[:, 2] * boxes[:, 3]
    union = area if by_own_area else area + others[:, 2] * others[:, 3] - shared
    # The union may be 0 for boxes without area.
    overlap: Floats = np.divide(shared, union, out=np.zeros_like(shared), where=shared > 0)
    return overlap


def all_point_average_precision(is_true: Flags, num_boxes: int) -> float:
    """Area under the precision-recall curve, with the best precision at this recall or a higher one (PASCAL VOC 2010).

    Args:
        is_true: whether a counted detection is a true positive, (D,), by descending score.
        num_boxes: number of boxes to find, at least 1.
    """
    true_positives = np.flatnonzero(is_true)
    precision = np.arange(1, len(true_positives) + 1) / (true_positives + 1)
    # Recall rises by 1 / num_boxes at every true positive and nowhere else.
    return float(np.maximum.accumulate(precision[::-1]).sum() / num_boxes)
