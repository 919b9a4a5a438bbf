"""Matching of detections and annotations, at every IoU threshold and object size at once.

The rule is COCO's: in each image and category, the detections choose in the order of their scores. Each takes the free
annotation with the highest IoU, and counted annotations come before ignored ones. Images and categories are
independent, so the k-th choices of all of them are made together.

faster-coco-eval is not used: it needs a dictionary for each annotation and a nested list of IoUs for each image and
category. From files to metrics, 1.5 million detections in LVIS's size took it 4.7 times the CPU time and 10 times the
memory of this module (benchmarks/evaluation.py).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from equigrad.evaluation.detection.annotations import Flags, Floats, Ints

IOU_THRESHOLDS: Floats = np.linspace(0.5, 0.95, 10)
PAIRS_AT_ONCE = 1 << 20  # bounds the memory of IoUs

PairwiseIou = Callable[[Ints, Ints], Floats]  # indices of detections and of annotations, (P,) each -> (P,)


@dataclass(frozen=True, eq=False)
class Candidates:
    """Pairs of a detection and an annotation of the same image and category that overlap enough, (E,) each."""

    detections: Ints  # ascending
    annotations: Ints
    ious: Floats

    def of(self, is_wanted: Flags) -> "Candidates":
        """The pairs of the wanted detections, flags (D,)."""
        keep = is_wanted[self.detections]
        return Candidates(self.detections[keep], self.annotations[keep], self.ious[keep])


def find_candidates(detection_cells: Ints, annotation_cells: Ints, iou: PairwiseIou) -> Candidates:
    """Compare the detections and annotations of each cell, which is one category in one image.

    Args:
        detection_cells: cell of each detection, (D,), ascending.
        annotation_cells: cell of each annotation, (G,), ascending.
        iou: computes the IoU of pairs; it gets all pairs of a cell in one call, detection by detection.
    """
    starts = np.searchsorted(annotation_cells, detection_cells)
    counts = np.searchsorted(annotation_cells, detection_cells, side="right") - starts
    parts = [Candidates(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))]
    for begin, end in _chunks(detection_cells, counts):
        detections = np.repeat(np.arange(begin, end), counts[begin:end])
        ends = np.cumsum(counts[begin:end])
        shifts = np.repeat(starts[begin:end] - ends + counts[begin:end], counts[begin:end])
        annotations = shifts + np.arange(len(detections))
        ious = iou(detections, annotations)
        near = ious >= IOU_THRESHOLDS[0]
        parts.append(Candidates(detections[near], annotations[near], ious[near]))
    columns = zip(*((part.detections, part.annotations, part.ious) for part in parts), strict=True)
    return Candidates(*(np.concatenate(column) for column in columns))


def _chunks(cells: Ints, counts: Ints) -> Iterator[tuple[int, int]]:
    """Ranges of detections with about `PAIRS_AT_ONCE` pairs; a cell is never split."""
    pairs = np.concatenate([[0], np.cumsum(counts)])
    cell_ends = np.concatenate([[0], np.flatnonzero(np.diff(cells)) + 1, [len(cells)]])
    wanted = np.arange(0, pairs[-1] + PAIRS_AT_ONCE, PAIRS_AT_ONCE)
    cuts = cell_ends[np.minimum(np.searchsorted(pairs[cell_ends], wanted), len(cell_ends) - 1)]
    yield from pairwise(np.unique(np.concatenate([cuts, [0, len(cells)]])).tolist())


UNMATCHED, FOUND, IGNORED = 0, 1, 2


def match(candidates: Candidates, cells: Ints, is_counted: Flags, is_crowd: Flags) -> NDArray[np.uint8]:
    """Match each detection, (A, T, D): `UNMATCHED`, `FOUND` (a counted annotation) or `IGNORED` (an ignored one).

    Args:
        candidates: pairs that overlap enough.
        cells: cell of each detection, (D,), ascending, and by descending score within a cell.
        is_counted: whether an annotation counts in each range of sizes, (A, G).
        is_crowd: whether any number of detections may match an annotation, (G,).
    """
    shape = (len(is_counted), len(IOU_THRESHOLDS))
    outcome = np.zeros((*shape, len(cells)), np.uint8)
    is_free = np.ones((*shape, is_counted.shape[1]), np.bool_)
    thresholds = IOU_THRESHOLDS[:, None]
    for choice in _choices(candidates, cells):
        annotations, num = choice.annotations, len(choice.annotations)
        possible = is_free[:, :, annotations] & (choice.ious >= thresholds)
        # Lower is better: counted annotations by IoU, then ignored ones; impossible ones are last.
        preference = np.arange(num) + np.where(is_counted[:, None, annotations], 0, num)
        starts = np.flatnonzero(np.diff(choice.detections, prepend=-1))
        best = np.minimum.reduceat(np.where(possible, preference, 2 * num), starts, axis=-1)
        outcome[:, :, choice.detections[starts]] = np.where(best < num, FOUND, np.where(best < 2 * num, IGNORED, 0))
        sizes, levels, which = np.nonzero(best < 2 * num)
        taken = annotations[best[sizes, levels, which] % num]
        is_free[sizes, levels, taken] = is_crowd[taken]
    return outcome


def _choices(candidates: Candidates, cells: Ints) -> Iterator[Candidates]:
    """The candidates of the first detection of every cell, then those of the second, …, each with the best pair first.

    For equal IoUs the last annotation wins, as in pycocotools.
    """
    detections = np.unique(candidates.detections)
    owners = cells[detections]
    turns = np.arange(len(detections)) - np.searchsorted(owners, owners)
    turn = turns[np.searchsorted(detections, candidates.detections)]
    order = np.lexsort((-candidates.annotations, -candidates.ious, candidates.detections, turn))
    bounds = np.flatnonzero(np.diff(turn[order], prepend=-1, append=-1))
    for begin, end in pairwise(bounds.tolist()):
        part = order[begin:end]
        yield Candidates(candidates.detections[part], candidates.annotations[part], candidates.ious[part])


def box_iou(boxes: Floats, others: Floats, is_crowd: Flags) -> Floats:
    """IoU of pairs of boxes (P, 4) as x, y, width, height; with a crowd, the share of the box that lies in it."""
    low = np.maximum(boxes[:, :2], others[:, :2])
    high = np.minimum(boxes[:, 2:] + boxes[:, :2], others[:, 2:] + others[:, :2])
    sides = np.maximum(high - low, 0)
    shared = sides[:, 0] * sides[:, 1]
    area = boxes[:, 2] * boxes[:, 3]
    union = np.where(is_crowd, area, area + others[:, 2] * others[:, 3] - shared)
    # The union may be 0 for boxes without area.
    iou: Floats = np.divide(shared, union, out=np.zeros_like(shared), where=shared > 0)
    return iou
