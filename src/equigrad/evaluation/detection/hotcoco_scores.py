"""Precision and recall of selected detections, computed by hotcoco.

`rules.select` has applied the limits and left out what cannot count, so hotcoco matches every detection it is given.
Ids that hotcoco sees start from 1 and follow the order in which equal scores are taken: images by their id in the file.
hotcoco is trusted with numbers that were checked before: it accepts negative sides and unknown ids without an error.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import hotcoco
import numpy as np

from equigrad.evaluation.detection.annotations import Annotations, Flags, Floats, Ints
from equigrad.evaluation.detection.predictions import Predictions
from equigrad.evaluation.detection.rules import Rules, Selection, annotation_images

IouType = Literal["bbox", "segm"]
SIZES: Floats = np.array([[0, 1e10], [0, 32**2], [32**2, 96**2], [96**2, 1e10]])  # all, small, medium, large
CATEGORIES_AT_ONCE = 300  # bounds the memory of precision at every recall level


@dataclass(frozen=True, eq=False)
class Objects:
    """N detections or annotations in the order of their file."""

    images: Ints  # (N,) ids of images, from 1
    categories: Ints  # (N,) ids of categories, from 1
    boxes: Floats  # (N, 4) x, y, width, height
    areas: Floats  # (N,)
    rles: list[Any] | None  # masks, if they are compared

    def take(self, which: Ints) -> "Objects":
        """The objects with these indices."""
        rles = None if self.rles is None else [self.rles[index] for index in which.tolist()]
        return Objects(self.images[which], self.categories[which], self.boxes[which], self.areas[which], rles)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Detections, the annotations they are compared with, and the rules."""

    images: list[dict[str, Any]]
    num_categories: int
    annotations: Objects
    is_crowd: Flags
    detections: Objects
    scores: Floats
    is_excused: Flags
    rules: Rules

    def with_detections(self, is_wanted: Flags) -> "Comparison":
        """The same with some of the detections, flags (D,)."""
        if is_wanted.all():
            return self
        which = np.flatnonzero(is_wanted)
        detections, scores, is_excused = self.detections.take(which), self.scores[which], self.is_excused[which]
        return replace(self, detections=detections, scores=scores, is_excused=is_excused)

    def pooled(self) -> "Comparison":
        """All categories as one: each category of an image becomes an image of its own, by image and then category."""
        stride = self.num_categories + 1
        cells, numbers = np.unique(
            np.concatenate([side.images * stride + side.categories for side in (self.annotations, self.detections)]),
            return_inverse=True,
        )
        found_numbers = numbers[len(self.annotations.images) :] + 1
        is_excused = np.zeros(len(cells) + 1, np.bool_)
        is_excused[found_numbers[self.is_excused]] = True
        images = [{"id": number, "neg_category_ids": [1]} for number in range(1, len(cells) + 1)]
        for number in np.flatnonzero(is_excused).tolist():
            images[number - 1]["not_exhaustive_category_ids"] = [1]
        return replace(
            self,
            images=images,
            num_categories=1,
            annotations=_of_one_category(self.annotations, numbers[: len(self.annotations.images)] + 1),
            detections=_of_one_category(self.detections, found_numbers),
        )


def compare(
    predictions: Predictions, selection: Selection, annotations: Annotations, rules: Rules, iou_type: IouType
) -> Comparison:
    """What hotcoco needs of the selected detections and their annotations."""
    ranks = np.argsort(np.argsort(annotations.image_ids, kind="stable"))  # of images by id
    counted = np.flatnonzero((np.asarray(annotations.areas) > 0) | (not rules.is_federated))
    return Comparison(
        _images(annotations, rules, np.argsort(ranks)),
        len(annotations.categories.names),
        _annotations(annotations, counted, ranks, iou_type),
        np.asarray(annotations.is_crowd)[counted].astype(np.bool_) & (not rules.is_federated),
        _detections(predictions, selection.indices, annotations, ranks, iou_type),
        predictions.scores[selection.indices],
        selection.is_excused,
        rules,
    )


def precision_and_recall(task: Comparison, iou_type: IouType, sizes: Floats = SIZES) -> tuple[Floats, Floats]:
    """Precision (C, A, T), the mean over 101 recall levels, and recall (C, A, L, T) at each limit; nan without objects.

    The last of the L limits is the number of detections: no limit.
    """
    evaluator = hotcoco.COCOeval(*_data(task), iou_type, lvis_style=task.rules.is_federated)
    evaluator.params.max_dets = [*task.rules.recall_limits, max(len(task.scores), 1)]
    evaluator.params.area_rng = sizes.tolist()
    evaluator.params.area_rng_lbl = ["all", "small", "medium", "large"][: len(sizes)]
    parts = [_of_categories(evaluator, numbers) for numbers in _slices(task.num_categories)]
    precision, recall = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return precision, recall


def _slices(num_categories: int) -> Iterator[list[int]]:
    for start in range(1, num_categories + 1, CATEGORIES_AT_ONCE):
        yield list(range(start, min(start + CATEGORIES_AT_ONCE, num_categories + 1)))


def _of_categories(evaluator: hotcoco.COCOeval, numbers: list[int]) -> tuple[Floats, Floats]:
    evaluator.params.cat_ids = numbers
    evaluator.evaluate()
    evaluator.accumulate()
    assert evaluator.eval is not None
    precision, recall = evaluator.eval["precision"], evaluator.eval["recall"]  # (T, R, C, A, L), (T, C, A, L)
    mean = precision[..., -1].mean(1)
    # hotcoco says -1 where there is nothing to find.
    known = tuple(np.where(values < 0, np.nan, values) for values in (mean, recall))
    return np.moveaxis(known[0], 0, -1), np.moveaxis(known[1], 0, -1)


def _data(task: Comparison) -> tuple[hotcoco.COCO, hotcoco.COCO]:
    truth, found = task.annotations, task.detections
    annotations = hotcoco.COCO.from_arrays(
        task.images,
        [{"id": number, "name": str(number)} for number in range(1, task.num_categories + 1)],
        truth.images,
        truth.categories,
        truth.boxes,
        area=truth.areas,
        iscrowd=task.is_crowd.astype(np.int64),
        segmentation=truth.rles,
    )
    rows = np.column_stack([found.images, found.boxes, task.scores, found.categories])
    detections = annotations.load_res(rows, segmentation=found.rles)
    detections = detections.cap_detections_per_image(None)  # otherwise LVIS rules would keep 300
    if found.rles is not None:  # the area of a detection is that of its box if it has one
        detections.update_anns(ids=np.arange(1, len(rows) + 1), area=found.areas)
    return annotations, detections


def _images(annotations: Annotations, rules: Rules, by_id: Ints) -> list[dict[str, Any]]:
    images: list[dict[str, Any]] = [{"id": number} for number in range(1, len(by_id) + 1)]
    lists = {"neg_category_ids": annotations.negative, "not_exhaustive_category_ids": annotations.not_exhaustive}
    for name, labels in lists.items():
        if rules.is_federated and labels is not None:
            ids, bounds = (np.asarray(labels.values) + 1).tolist(), np.asarray(labels.offsets).tolist()
            for image, index in zip(images, by_id.tolist(), strict=True):
                image[name] = ids[bounds[index] : bounds[index + 1]]
    return images


def _annotations(annotations: Annotations, indices: Ints, ranks: Ints, iou_type: IouType) -> Objects:
    if annotations.xywh is not None:
        boxes = annotations.xywh[indices]
    else:
        corners = annotations.boxes[indices].astype(np.float64)
        boxes = np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], 1)
    return Objects(
        ranks[annotation_images(annotations)[indices]] + 1,
        annotations.labels[indices].astype(np.int64) + 1,
        boxes,
        np.asarray(annotations.areas)[indices].astype(np.float64),
        [annotations.rle(index) for index in indices.tolist()] if iou_type == "segm" else None,
    )


def _detections(
    predictions: Predictions, indices: Ints, annotations: Annotations, ranks: Ints, iou_type: IouType
) -> Objects:
    images, rles = predictions.images[indices], None
    if iou_type == "segm":
        sizes = np.stack([annotations.heights[images], annotations.widths[images]], 1).tolist()
        masks = predictions.masks
        # A file without detections has no masks.
        rles = (
            []
            if masks is None
            else [masks.rle(index, size) for index, size in zip(indices.tolist(), sizes, strict=True)]
        )
    labels = predictions.labels[indices].astype(np.int64)
    return Objects(ranks[images] + 1, labels + 1, predictions.boxes[indices], predictions.areas[indices], rles)


def _of_one_category(objects: Objects, images: Ints) -> Objects:
    return replace(objects, images=images, categories=np.ones(len(images), np.int64))
