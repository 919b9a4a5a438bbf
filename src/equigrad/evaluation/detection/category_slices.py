"""AP in slices of categories: categories are independent, so memory is bounded and processes can share the work.

The results do not depend on how the categories are sliced.
"""

import multiprocessing
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pycocotools.mask as mask_api  # type: ignore[import-untyped]

from equigrad.evaluation.detection.annotations import Annotations, Flags, Floats, Ints
from equigrad.evaluation.detection.average_precision import average_precision
from equigrad.evaluation.detection.matching import (
    FOUND,
    IOU_THRESHOLDS,
    UNMATCHED,
    Candidates,
    box_iou,
    find_candidates,
    match,
)
from equigrad.evaluation.detection.packed_masks import PackedMasks
from equigrad.evaluation.detection.predictions import Predictions
from equigrad.evaluation.detection.rules import Rules, Selection, annotation_images

IouType = Literal["bbox", "segm"]
SIZES: Floats = np.array([[0, 1e10], [0, 32**2], [32**2, 96**2], [96**2, 1e10]])  # all, small, medium, large
DETECTIONS_AT_ONCE = 100_000


@dataclass(frozen=True, eq=False)
class Boxes:
    """Detections or annotations, (N,) each, sorted by cell: one category in one image."""

    cells: Ints  # label * num_images + rank of the image among all by id
    boxes: Floats  # (N, 4) x, y, width, height
    areas: Floats
    rles: list[dict[str, Any]] | None  # masks, if they are compared


@dataclass(frozen=True, eq=False)
class CategorySlice:
    """Categories `first … first + num - 1` and everything needed to evaluate them."""

    first: int
    num: int
    num_images: int
    detections: Boxes  # by descending score within a cell
    scores: Floats
    selection: Selection
    annotations: Boxes
    is_crowd: Flags
    recall_limits: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class SliceScores:
    """For K categories, A sizes, T thresholds and L recall limits; nan if there is no annotation."""

    precision: Floats  # (K, A, T)
    recall: Floats  # (K, A, T)
    limited_recall: Floats  # (K, L, T)
    fixed_precision: Floats  # (K, T) with the limits of AP-fixed
    num_annotations: Ints  # (K,)
    pool: "Pool"

    @classmethod
    def unknown(cls, num: int, num_limits: int, pool: "Pool") -> "SliceScores":
        """Scores that are all nan, to be filled in."""
        by_size = np.full((num, len(SIZES), len(IOU_THRESHOLDS)), np.nan)
        by_limit = np.full((num, num_limits, len(IOU_THRESHOLDS)), np.nan)
        return cls(by_size, by_size.copy(), by_limit, by_size[:, 0].copy(), np.zeros(num, np.int64), pool)


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Outcome of D detections for A sizes and T thresholds, (A, T, D) each."""

    is_true: Flags  # true positives
    is_counted: Flags  # true and false positives; the others are ignored


@dataclass(frozen=True, eq=False)
class Pool:
    """Detections of all categories together, for AP-pool."""

    scores: Floats  # (D,)
    cells: Ints  # (D,)
    is_true: Flags  # (T, D)
    is_counted: Flags  # (T, D)


def slices(
    predictions: Predictions,
    selection: Selection,
    annotations: Annotations,
    rules: Rules,
    iou_type: IouType,
    detections_at_once: int = DETECTIONS_AT_ONCE,
) -> Iterator[CategorySlice]:
    """Split the categories into slices with about `detections_at_once` detections each."""
    num_images, num_categories = len(annotations.image_ids), len(annotations.categories.names)
    # For equal scores, the official evaluators take the image with the lower id first.
    rank = np.argsort(np.argsort(annotations.image_ids, kind="stable"))
    cells = predictions.labels[selection.indices] * np.int64(num_images) + rank[predictions.images[selection.indices]]
    order = np.lexsort((-predictions.scores[selection.indices], cells))
    cells = cells[order]
    truth_cells = annotations.labels * np.int64(num_images) + rank[annotation_images(annotations)]
    counted = np.flatnonzero((np.asarray(annotations.areas) > 0) | (not rules.is_federated))
    truth_order = counted[np.argsort(truth_cells[counted], kind="stable")]
    truth_cells = truth_cells[truth_order]
    starts = np.searchsorted(cells, np.arange(num_categories + 1) * num_images)
    truth_starts = np.searchsorted(truth_cells, np.arange(num_categories + 1) * num_images)
    for first, end in _cuts(starts, detections_at_once):
        part = order[starts[first] : starts[end]]
        indices = selection.indices[part]
        truths = truth_order[truth_starts[first] : truth_starts[end]]
        is_crowd = np.asarray(annotations.is_crowd)[truths].astype(np.bool_) & (not rules.is_federated)
        yield CategorySlice(
            first,
            end - first,
            num_images,
            _detections(predictions, indices, cells[starts[first] : starts[end]], annotations, iou_type),
            predictions.scores[indices],
            Selection(indices, selection.is_standard[part], selection.is_fixed[part], selection.is_excused[part]),
            _annotations(annotations, truths, truth_cells[truth_starts[first] : truth_starts[end]], iou_type),
            is_crowd,
            rules.recall_limits,
        )


def _cuts(starts: Ints, detections_at_once: int) -> Iterator[tuple[int, int]]:
    """Ranges of categories; a category with very many detections is a slice of its own."""
    wanted = np.arange(0, starts[-1], detections_at_once)
    firsts = np.searchsorted(starts[:-1], wanted)
    yield from pairwise(np.unique(np.concatenate([[0], firsts, [len(starts) - 1]])).tolist())


def _detections(
    predictions: Predictions, indices: Ints, cells: Ints, annotations: Annotations, iou_type: IouType
) -> Boxes:
    rles = None
    if iou_type == "segm":
        masks = predictions.masks or PackedMasks.of([])  # a file without detections has no masks
        images = predictions.images[indices]
        sizes = zip(annotations.heights[images].tolist(), annotations.widths[images].tolist(), strict=True)
        rles = [masks.rle(index, size) for index, size in zip(indices.tolist(), sizes, strict=True)]
    return Boxes(cells, predictions.boxes[indices], predictions.areas[indices], rles)


def _annotations(annotations: Annotations, indices: Ints, cells: Ints, iou_type: IouType) -> Boxes:
    if annotations.xywh is not None:
        boxes = annotations.xywh[indices]
    else:
        corners = annotations.boxes[indices].astype(np.float64)
        boxes = np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], 1)
    rles = [annotations.rle(index) for index in indices.tolist()] if iou_type == "segm" else None
    return Boxes(cells, boxes, np.asarray(annotations.areas)[indices].astype(np.float64), rles)


def evaluate_slices(parts: Iterable[CategorySlice], num_workers: int = 0) -> Iterator[SliceScores]:
    """Evaluate slices in order, in this process or in worker processes; only a few slices are in memory at a time."""
    if num_workers == 0:
        yield from map(evaluate_slice, parts)
        return
    # Spawned and not forked, because this process may have threads and use a GPU.
    context = multiprocessing.get_context("spawn")
    pending: deque[Future[SliceScores]] = deque()
    with ProcessPoolExecutor(num_workers, mp_context=context) as pool:
        for part in parts:
            pending.append(pool.submit(evaluate_slice, part))
            if len(pending) > num_workers + 1:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def evaluate_slice(part: CategorySlice) -> SliceScores:
    """AP and recall of the categories of a slice."""
    iou = _MaskIou(part) if part.detections.rles is not None else _BoxIou(part)
    candidates = find_candidates(part.detections.cells, part.annotations.cells, iou)
    standard = _outcomes(part, candidates, part.selection.is_standard, SIZES)
    if (part.selection.is_standard == part.selection.is_fixed).all():
        fixed = Outcomes(standard.is_true[:1], standard.is_counted[:1])
    else:
        fixed = _outcomes(part, candidates, part.selection.is_fixed, SIZES[:1])
    pooled = Pool(part.scores, part.detections.cells, fixed.is_true[0], fixed.is_counted[0])
    scores = SliceScores.unknown(part.num, len(part.recall_limits), pooled)
    to_find = _in_size(part.annotations.areas, SIZES) & ~part.is_crowd
    for row, found, wanted in _categories(part):
        _score_category(scores, row, part, found, to_find[:, wanted].sum(1), standard, fixed)
    return scores


def _categories(part: CategorySlice) -> Iterator[tuple[int, Ints, slice]]:
    """For each category its row, its detections by descending score, and the range of its annotations."""
    edges = (part.first + np.arange(part.num + 1)) * part.num_images
    bounds = pairwise(np.searchsorted(part.detections.cells, edges).tolist())
    truth_bounds = pairwise(np.searchsorted(part.annotations.cells, edges).tolist())
    for row, ((begin, end), truths) in enumerate(zip(bounds, truth_bounds, strict=True)):
        yield row, begin + np.argsort(-part.scores[begin:end], kind="stable"), slice(*truths)


def _score_category(
    scores: SliceScores, row: int, part: CategorySlice, found: Ints, num: Ints, standard: Outcomes, fixed: Outcomes
) -> None:
    """Fill in one row; `num` (A,) is the number of annotations of each size."""
    scores.num_annotations[row] = num[0]
    for size in np.flatnonzero(num).tolist():
        scores.precision[row, size] = _curves(standard, size, found, num[size])
        scores.recall[row, size] = standard.is_true[size][:, found].sum(1) / num[size]
    if not num[0]:
        return
    scores.fixed_precision[row] = _curves(fixed, 0, found, num[0])
    cells = part.detections.cells
    ranks = found - np.searchsorted(cells, cells[found])  # by score within the cell
    for column, limit in enumerate(part.recall_limits):
        scores.limited_recall[row, column] = standard.is_true[0][:, found[ranks < limit]].sum(1) / num[0]


def _curves(outcomes: Outcomes, size: int, order: Ints, num: int) -> list[float]:
    is_true, is_counted = outcomes.is_true[size][:, order], outcomes.is_counted[size][:, order]
    return [average_precision(true, counted, num) for true, counted in zip(is_true, is_counted, strict=True)]


def _outcomes(part: CategorySlice, candidates: Candidates, members: Flags, sizes: Floats) -> Outcomes:
    """The outcome of each detection; those that are not members are left out of matching."""
    to_find = _in_size(part.annotations.areas, sizes) & ~part.is_crowd
    outcome = match(candidates.of(members), part.detections.cells, to_find, part.is_crowd)
    is_true = outcome == FOUND
    # An unmatched detection is not a mistake if it has another size, or if its category is not fully annotated.
    is_mistake = _in_size(part.detections.areas, sizes) & members & ~part.selection.is_excused
    return Outcomes(is_true, is_true | ((outcome == UNMATCHED) & is_mistake[:, None]))


def _in_size(areas: Floats, sizes: Floats) -> Flags:
    """Whether each area is in each size range, (A, N), both ends included."""
    within: Flags = (areas >= sizes[:, :1]) & (areas <= sizes[:, 1:])
    return within


class _BoxIou:
    """IoU of boxes, for all pairs at once."""

    def __init__(self, part: CategorySlice) -> None:
        self.part = part

    def __call__(self, detections: Ints, annotations: Ints) -> Floats:
        boxes, others = self.part.detections.boxes[detections], self.part.annotations.boxes[annotations]
        return box_iou(boxes, others, self.part.is_crowd[annotations])


class _MaskIou:
    """IoU of masks, one cell after the other."""

    def __init__(self, part: CategorySlice) -> None:
        self.part = part

    def __call__(self, detections: Ints, annotations: Ints) -> Floats:
        assert self.part.detections.rles is not None
        assert self.part.annotations.rles is not None
        ious = np.zeros(len(detections))
        cells = self.part.detections.cells[detections]
        bounds = np.flatnonzero(np.diff(cells, prepend=-1, append=-1))
        for begin, end in pairwise(bounds.tolist()):
            found = self.part.detections.rles[detections[begin] : detections[end - 1] + 1]
            wanted = slice(annotations[begin], annotations[end - 1] + 1)
            crowd = self.part.is_crowd[wanted].astype(np.uint8).tolist()
            ious[begin:end] = mask_api.iou(found, self.part.annotations.rles[wanted], crowd).ravel()
        return ious
