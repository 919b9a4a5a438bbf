"""Average precision by the rules of the OpenImages Challenge 2019, of all categories and of five frequency groups.

    evaluator = OpenImagesEvaluator(data, train_data.detection.instance_counts)   # both of read_openimages
    for images, targets in loader:
        evaluator.add(model(images), targets)          # or evaluator.add_file("results.bbox.json")
    evaluator.result()                                 # {"AP": 0.526, "AP1": ..., ..., "AP5": ...}

The rules are those of the challenge's own evaluator; docs/openimages.md describes them.
"""

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch.distributed as dist
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from equigrad.data.frequency import checked_counts
from equigrad.evaluation.detection.annotations import Annotations, Flags, Floats, ImageLists, Ints
from equigrad.evaluation.detection.json_entries import json_entries
from equigrad.evaluation.detection.openimages_matching import Boxes, all_point_average_precision, match_detections
from equigrad.evaluation.gathering import gather_arrays, is_distributed, own_rank
from equigrad.evaluation.known_mean import mean_known

NUM_GROUPS = 5
ROWS_AT_ONCE = 50_000
MAX_NUMBER = 1e9  # pixels, or a score


class Hierarchy(Protocol):
    """Expands labels along the class hierarchy; `ClassHierarchy` does."""

    def upwards(self, labels: ArrayLike) -> tuple[Ints, Ints]:
        """Labels and their ancestors: the row each comes from, and the labels."""

    def downwards(self, labels: ArrayLike) -> tuple[Ints, Ints]:
        """Labels and their descendants: the row each comes from, and the labels."""


class VerifiedAnnotations(Protocol):
    """Boxes of I images, and which categories people verified in each; `OpenImagesData` has them."""

    @property
    def detection(self) -> Annotations:
        """Boxes with their most specific category."""

    @property
    def image_names(self) -> NDArray[np.bytes_]:
        """(I,) ids in the published files."""

    @property
    def is_group_of(self) -> Flags:
        """(M,) whether a box surrounds several objects."""

    @property
    def positive(self) -> ImageLists | None:
        """Categories verified to be in an image."""

    @property
    def negative(self) -> ImageLists | None:
        """Categories verified to be absent from an image."""

    @property
    def hierarchy(self) -> Hierarchy | None:
        """The class hierarchy; None if boxes are expanded already."""


@dataclass(frozen=True)
class OpenImagesRow:
    """One category: how often it was trained on and how well it is detected."""

    name: str
    count: int  # boxes in training
    group: str  # AP1 (fewest training boxes) … AP5 (most)
    num_boxes: int  # in the test set, boxes of subcategories included
    AP: float  # nan without boxes


class OpenImagesEvaluator:
    """Collects detections and computes AP; with several ranks, every rank calls `result` and gets the same.

    Args:
        truth: the annotations as they were read; boxes and verified labels are expanded here.
        category_counts: number of training boxes of each category, (C,), which make the five groups.
        expand_detections: whether a detection also counts for the ancestors of its category. The challenge expects
            detectors to report the ancestors too; use False for a detector that does.
    """

    def __init__(
        self, truth: VerifiedAnnotations, category_counts: ArrayLike, *, expand_detections: bool = True
    ) -> None:
        names = truth.detection.categories.names
        self.category_counts = checked_counts(category_counts)
        if len(self.category_counts) != len(names):
            raise ValueError(f"category_counts must be ({len(names)},), got ({len(self.category_counts)},)")
        if truth.positive is None or truth.negative is None:
            raise ValueError("truth must have verified image-level labels: without them false positives are unknown")
        self.class_names = tuple(names)
        self.groups = count_groups(self.category_counts)
        self._num_images = len(truth.image_names)
        self._image_of: dict[Any, int] = {name.decode(): index for index, name in enumerate(truth.image_names)}
        self._image_of |= {int(number): index for index, number in enumerate(truth.detection.image_ids)}
        self._label_of = {int(number): label for label, number in enumerate(truth.detection.categories.ids)}
        self._expand = truth.hierarchy.upwards if truth.hierarchy is not None and expand_detections else None
        self._boxes, self._groups = _boxes_to_find(truth)
        # A last entry larger than any cell, so that searchsorted never runs off the end.
        self._verified = np.append(_verified_cells(truth, (self._boxes, self._groups)), np.iinfo(np.int64).max)
        self._parts: list[Boxes] = []
        self._is_added = np.zeros(self._num_images, np.bool_)
        self._values: Floats | None = None

    @property
    def num_classes(self) -> int:
        """C, the number of categories."""
        return len(self.class_names)

    def add(self, predictions: Sequence[Mapping[str, Any]], targets: Sequence[Mapping[str, Any]]) -> None:
        """Add the detections of images; an image that was added before is skipped.

        Args:
            predictions: for each image `boxes` (K, 4) x1, y1, x2, y2 in its own pixels, `scores` (K,), `labels` (K,).
            targets: for each image its `image_id`.
        """
        for prediction, target in zip(predictions, targets, strict=True):
            image = self._image(target["image_id"], "target")
            if not self._is_added[image]:
                self._is_added[image] = True
                boxes, scores, labels = (_array(prediction[name]) for name in ("boxes", "scores", "labels"))
                self._keep(boxes.reshape(-1, 4), scores, labels, np.full(len(labels), image))

    def add_rows(self, rows: Sequence[Mapping[str, Any]], source: str = "rows") -> None:
        """Add standard result rows `{"image_id", "category_id", "bbox": [x, y, width, height], "score"}`.

        `image_id` is the id in the published files (text) or in the data (number); `category_id` is the id in the data.
        """
        images = [self._image(_field(row, "image_id", source), source) for row in rows]
        labels = [self._label(_field(row, "category_id", source), source) for row in rows]
        boxes, scores = _numbers(rows, "bbox", (4,), source), _numbers(rows, "score", (), source)
        boxes[:, 2:] += boxes[:, :2]
        self._keep(boxes, scores, np.array(labels, np.int64), np.array(images, np.int64))

    def add_file(self, file: str | os.PathLike[str]) -> None:
        """Add a file with a JSON list of standard result rows, which is read in batches."""
        entries = json_entries(Path(file))
        while batch := list(itertools.islice(entries, ROWS_AT_ONCE)):
            self.add_rows(batch, str(file))

    def result(self) -> dict[str, float]:
        """AP at IoU 0.5 as fractions in [0, 1]; nan for a group without boxes."""
        values = self._average_precisions()
        groups = {name: mean_known(values[members]) for name, members in self.groups.items()}
        return {"AP": mean_known(values), **groups}

    def per_category(self) -> list[OpenImagesRow]:
        """One row for each category, in the order of labels."""
        values, num_boxes = self._average_precisions(), self._num_boxes()
        group_of = {int(label): name for name, members in self.groups.items() for label in members}
        return [
            OpenImagesRow(name, int(count), group_of[label], int(num), float(value))
            for label, (name, count, num, value) in enumerate(
                zip(self.class_names, self.category_counts, num_boxes, values, strict=True)
            )
        ]

    def _image(self, image_id: Any, source: str) -> int:
        image_id = image_id.item() if isinstance(image_id, Tensor | np.generic) else image_id
        if not isinstance(image_id, str | int) or image_id not in self._image_of:
            raise ValueError(f"{source}: image_id {image_id!r} is not one of the {self._num_images} images")
        return self._image_of[image_id]

    def _label(self, category_id: Any, source: str) -> int:
        if not isinstance(category_id, int) or category_id not in self._label_of:
            raise ValueError(f"{source}: category_id {category_id!r} is not one of the {self.num_classes} categories")
        return self._label_of[category_id]

    def _keep(self, boxes: Floats, scores: Floats, labels: Ints, images: Ints) -> None:
        """Add the detections that count: those with an area, of categories that were verified in their image."""
        if not len(boxes) == len(scores) == len(labels):
            raise ValueError(
                f"boxes, scores and labels must have one length, got {len(boxes)}, {len(scores)}, {len(labels)}"
            )
        if not (np.isfinite(boxes).all() and np.isfinite(scores).all()):
            raise ValueError("boxes and scores of detections must be finite numbers")
        if len(labels) and not 0 <= labels.min() <= labels.max() < self.num_classes:
            raise ValueError(f"labels must be in 0..{self.num_classes - 1}, got {labels.min()}..{labels.max()}")
        part = Boxes(boxes, labels.astype(np.int64), images, scores)
        part = part.take(np.flatnonzero((boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])))
        if self._expand is not None:
            part = part.expanded(self._expand)
        cells = part.cells(self._num_images)
        self._parts.append(part.take(self._verified[np.searchsorted(self._verified, cells)] == cells))
        self._values = None

    def _all(self) -> Boxes:
        """The detections of all ranks, each image once; on the first rank only."""
        own = Boxes.joined(self._parts)
        parts, is_added = [], np.zeros(self._num_images, np.bool_)
        for *columns, flags in gather_arrays([*vars(own).values(), self._is_added]):
            part = Boxes(*columns)
            parts.append(part.take(~is_added[part.images]))
            is_added |= flags
        return Boxes.joined(parts)

    def _num_boxes(self) -> Ints:
        labels = np.concatenate([self._boxes.labels, self._groups.labels])
        return np.bincount(labels, minlength=self.num_classes)

    def _average_precisions(self) -> Floats:
        """AP of each category, (C,), which the first rank computes."""
        if self._values is None:
            detections = self._all()
            values: list[Any] = [self._evaluated(detections) if own_rank() == 0 else None]
            if is_distributed():
                dist.broadcast_object_list(values)
            self._values = values[0]
        assert self._values is not None
        return self._values

    def _evaluated(self, detections: Boxes) -> Floats:
        # Equal scores are taken in the order of images, not in that of adding.
        detections = detections.take(np.lexsort((-detections.scores, detections.cells(self._num_images))))
        is_true, is_counted = match_detections(detections, self._boxes, self._groups, self._num_images)
        labels, scores, is_true = detections.labels[is_counted], detections.scores[is_counted], is_true[is_counted]
        bounds = np.searchsorted(labels, np.arange(self.num_classes + 1))
        values = np.full(self.num_classes, np.nan)
        for label, num in enumerate(self._num_boxes()):
            if num:
                own = slice(bounds[label], bounds[label + 1])
                order = np.argsort(-scores[own], kind="stable")
                values[label] = all_point_average_precision(is_true[own][order], int(num))
        return values


def count_groups(category_counts: ArrayLike) -> dict[str, Ints]:
    """Five groups of equal size by training count: AP1 has the fewest boxes, AP5 the most."""
    ascending = np.argsort(checked_counts(category_counts), kind="stable")
    parts = np.array_split(ascending, NUM_GROUPS)
    return {f"AP{number}": np.sort(members) for number, members in enumerate(parts, start=1)}


def _boxes_to_find(truth: VerifiedAnnotations) -> tuple[Boxes, Boxes]:
    """Ordinary and group-of boxes, expanded along the hierarchy and sorted by cell."""
    found, num_images = truth.detection, len(truth.image_names)
    images = np.repeat(np.arange(num_images), np.diff(found.offsets))
    boxes = Boxes(found.boxes.astype(np.float64), found.labels.astype(np.int64), images, np.ones(len(images)))

    def chosen(flags: Flags) -> Boxes:
        part = boxes.take(flags)
        if truth.hierarchy is not None:
            part = part.expanded(truth.hierarchy.upwards)
        return part.take(np.argsort(part.cells(num_images), kind="stable"))

    return chosen(~truth.is_group_of), chosen(truth.is_group_of)


def _verified_cells(truth: VerifiedAnnotations, boxes: Sequence[Boxes]) -> Ints:
    """Cells (see `Boxes.cells`) that are evaluated, ascending: verified as present or absent, or with a box."""
    assert truth.positive is not None
    assert truth.negative is not None
    hierarchy, num_images = truth.hierarchy, len(truth.image_names)
    cells = [part.cells(num_images) for part in boxes]
    # An image with a dog has an animal; an image without animals has no dog.
    expansions = (None, None) if hierarchy is None else (hierarchy.upwards, hierarchy.downwards)
    for lists, expand in zip((truth.positive, truth.negative), expansions, strict=True):
        labels: Ints = np.asarray(lists.values, dtype=np.int64)
        images = np.repeat(np.arange(num_images), np.diff(lists.offsets))
        if expand is not None:
            rows, labels = expand(labels)
            images = images[rows]
        cells.append(labels * num_images + images)
    return np.unique(np.concatenate(cells))


def _array(values: Any) -> NDArray[Any]:
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _field(row: Mapping[str, Any], name: str, source: str) -> Any:
    if not isinstance(row, Mapping) or name not in row:
        raise ValueError(f"{source}: every row must have a {name}, got {str(row)[:80]}")
    return row[name]


def _numbers(rows: Sequence[Mapping[str, Any]], name: str, shape: tuple[int, ...], source: str) -> Floats:
    """A field of all rows, (N, *shape)."""
    values = [_field(row, name, source) for row in rows]
    try:
        numbers = np.array(values, dtype=np.float64).reshape(len(rows), *shape)
    except (TypeError, ValueError, OverflowError):
        numbers = None
    if numbers is None or not (np.abs(numbers) <= MAX_NUMBER).all():
        wrong = next(value for value in values if not _is_numeric(value, shape))
        expected = "four finite numbers" if shape else "a finite number"
        raise ValueError(f"{source}: {name} must be {expected}, got {wrong!r:.60}")
    return numbers


def _is_numeric(value: Any, shape: tuple[int, ...]) -> bool:
    try:
        numbers = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return False
    return numbers.shape == shape and bool((np.abs(numbers) <= MAX_NUMBER).all())
