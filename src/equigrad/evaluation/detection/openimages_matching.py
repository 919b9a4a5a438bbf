"""Which detections are true by the rules of the OpenImages Challenge: ordinary boxes by IoU, group-of boxes by area."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equigrad.evaluation.detection.annotations import Flags, Floats, Ints
from equigrad.evaluation.detection.matching import box_iou, find_candidates

Expansion = Callable[[ArrayLike], tuple[Ints, Ints]]  # labels -> indices into them and labels


@dataclass(frozen=True, eq=False)
class Boxes:
    """N detections, or N boxes to be found."""

    corners: Floats  # (N, 4) x1, y1, x2, y2
    labels: Ints  # (N,)
    images: Ints  # (N,) indices
    scores: Floats  # (N,); 1 for boxes to be found

    @classmethod
    def joined(cls, parts: Sequence["Boxes"]) -> "Boxes":
        """One after the other."""
        empty = cls(np.zeros((0, 4)), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
        columns = zip(*(vars(part).values() for part in (empty, *parts)), strict=True)
        return cls(*(np.concatenate(column) for column in columns))

    def take(self, which: NDArray[Any]) -> "Boxes":
        """Some of them, by indices or flags."""
        return Boxes(self.corners[which], self.labels[which], self.images[which], self.scores[which])

    def expanded(self, expand: Expansion) -> "Boxes":
        """Repeated for all labels that theirs imply."""
        rows, labels = expand(self.labels)
        return Boxes(self.corners[rows], labels, self.images[rows], self.scores[rows])

    def cells(self, num_images: int) -> Ints:
        """One number for a category in an image, (N,)."""
        return self.labels * num_images + self.images

    @property
    def sides(self) -> Floats:
        """(N, 4) x, y, width, height."""
        return np.concatenate([self.corners[:, :2], self.corners[:, 2:] - self.corners[:, :2]], 1)


def judge(detections: Boxes, boxes: Boxes, groups: Boxes, num_images: int) -> tuple[Flags, Flags]:
    """Which detections are true, and which count at all, (D,) each.

    A detection is true if it is the first whose best ordinary box, at IoU 0.5 or more, is this one. Of the others,
    those with half their area or more in a group-of box are its finders: the first is true, the rest do not count.

    Args:
        detections: by cell and then by falling score.
        boxes: ordinary boxes, by cell.
        groups: group-of boxes, by cell.
        num_images: I.
    """
    is_true, _ = _first_finders(detections, boxes, num_images, by_own_area=False)
    others = np.flatnonzero(~is_true)
    is_first, is_inside = _first_finders(detections.take(others), groups, num_images, by_own_area=True)
    is_counted = np.ones(len(is_true), np.bool_)
    is_counted[others] = ~is_inside | is_first
    is_true[others] = is_first
    return is_true, is_counted


def _first_finders(detections: Boxes, boxes: Boxes, num_images: int, *, by_own_area: bool) -> tuple[Flags, Flags]:
    """Detections that are the first to have a box as their best, and all that have one, (D,) each."""
    sides, other_sides = detections.sides, boxes.sides

    def overlap(left: Ints, right: Ints) -> Floats:
        return box_iou(sides[left], other_sides[right], np.full(len(left), by_own_area))

    pairs = find_candidates(detections.cells(num_images), boxes.cells(num_images), overlap)
    best_first = np.lexsort((pairs.annotations, -pairs.ious, pairs.detections))
    finders, places = np.unique(pairs.detections[best_first], return_index=True)
    _, firsts = np.unique(pairs.annotations[best_first][places], return_index=True)
    is_finder, is_first = np.zeros((2, len(sides)), np.bool_)
    is_finder[finders] = True
    is_first[finders[firsts]] = True
    return is_first, is_finder


def all_point_average_precision(is_true: Flags, num_boxes: int) -> float:
    """Area under the curve of the best precision at each recall or a higher one (PASCAL VOC 2010).

    Args:
        is_true: (D,) counted detections by falling score.
        num_boxes: to be found, at least 1.
    """
    places = np.flatnonzero(is_true)
    precision = np.arange(1, len(places) + 1) / (places + 1)
    # Recall rises by 1 / num_boxes at every true detection and nowhere else.
    return float(np.maximum.accumulate(precision[::-1]).sum() / num_boxes)
