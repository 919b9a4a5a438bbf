"""Test images of a detector: the true objects of a category, and what each run detects there."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pycocotools.mask as mask_api  # type: ignore[import-untyped]
from numpy.typing import NDArray
from torchvision.transforms.v2 import functional  # type: ignore[import-untyped]

from equigrad.analysis.pictures.objects import DetectedObject, outlined
from equigrad.analysis.pictures.thumbnails import thumbnail
from equigrad.analysis.report.examples import Answer, Example
from equigrad.data.detection.dataset import DetectionDataset
from equigrad.evaluation.detection.prediction_shards import read_shards
from equigrad.evaluation.detection.predictions import Predictions
from equigrad.run_files import PREDICTIONS
from equigrad.tasks.categories import TrainedCategories
from equigrad.tasks.detection.recipe import DetectionRecipe
from equigrad.tasks.detection.run import categories_of_run, stored_sets
from equigrad.tasks.examples.wanted import Wanted

_SIDE = 256  # pixels
_MIN_IOU = 0.5
_MAX_IMAGES = 200  # of a category that are looked at
_NUM_DRAWN = 8  # detections in an image, at most
_NUM_NAMED = 2


def find(folders: Sequence[Path], recipes: Sequence[DetectionRecipe], wanted: Sequence[Wanted]) -> list[list[Example]]:
    """For each category the images that show its change best."""
    test_set = stored_sets(recipes[0]).test
    predictions = [read_shards(folder / PREDICTIONS, test_set.data) for folder in folders]
    drawing = _Drawing(test_set, predictions, categories_of_run(recipes[0], folders[0]), recipes[0].shown.threshold)
    return [drawing.examples(category) for category in wanted]


class _Drawing:
    """The test set with the detections of all runs."""

    def __init__(
        self,
        test_set: DetectionDataset,
        predictions: Sequence[Predictions],
        categories: TrainedCategories,
        threshold: float,
    ) -> None:
        self.test_set, self.predictions = test_set, predictions
        self.categories, self.threshold = categories, threshold

    def examples(self, category: Wanted) -> list[Example]:
        """Images of a category in which the runs differ most."""
        images, labels = self.test_set.presence
        own = images[labels == category.label][:_MAX_IMAGES].tolist()
        scores = np.array([[self._found(run, image, category.label) for image in own] for run in self.predictions])
        return [self._example(own[index], category.label) for index in category.best(scores)] if own else []

    def _example(self, image: int, label: int) -> Example:
        photo = functional.to_pil_image(self.test_set.photo(image))
        answers = []
        for run in self.predictions:
            rows = self._near_truth(run, image, label, self.threshold)
            texts = [self._text(run, row, label) for row in rows[:_NUM_NAMED]]
            drawn = thumbnail(outlined(photo, [self._detected(run, row) for row in rows[:_NUM_DRAWN]], _SIDE), _SIDE)
            answers.append(Answer(", ".join(texts) or "nothing", bool((run.labels[rows] == label).any()), drawn))
        return Example(thumbnail(outlined(photo, self._true(image, label), _SIDE), _SIDE), answers)

    def _text(self, run: Predictions, row: int, label: int) -> str:
        name = "right" if run.labels[row] == label else self.categories.names[run.labels[row]]
        return f"{name} {run.scores[row]:.2f}"

    def _found(self, run: Predictions, image: int, label: int) -> float:
        """The best score of a detection of the category at a true object of it; 0 if there is none."""
        rows = self._near_truth(run, image, label, threshold=0.0)
        return float(run.scores[rows][run.labels[rows] == label].max(initial=0.0))

    def _near_truth(self, run: Predictions, image: int, label: int, threshold: float) -> NDArray[np.int64]:
        """Detections of any category that overlap a true object of this one, surest first."""
        rows = np.flatnonzero((run.images == image) & (run.scores >= threshold))
        truth = self._true_boxes(image, label)
        if not len(rows) or not len(truth):
            return np.zeros(0, dtype=np.int64)
        overlap = mask_api.iou(run.boxes[rows], truth, np.zeros(len(truth), np.uint8)).max(axis=1)
        near = rows[overlap >= _MIN_IOU]
        ordered: NDArray[np.int64] = near[np.argsort(-run.scores[near], kind="stable")]
        return ordered

    def _true_rows(self, image: int, label: int) -> NDArray[np.int64]:
        rows = self.test_set.data.annotations_of(image)
        own = (self.test_set.data.labels[rows] == label) & self.test_set.is_target[rows]
        found: NDArray[np.int64] = np.flatnonzero(own) + rows.start
        return found

    def _true_boxes(self, image: int, label: int) -> NDArray[np.float64]:
        """(K, 4) x, y, width, height."""
        boxes = self.test_set.data.boxes[self._true_rows(image, label)].astype(np.float64)
        return np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1)

    def _true(self, image: int, label: int) -> list[DetectedObject]:
        data, name, group = self.test_set.data, self.categories.names[label], self.categories.groups[label]
        found = []
        for row in self._true_rows(image, label).tolist():
            left, top, right, bottom = data.boxes[row].tolist()
            mask = data.mask(row).astype(np.bool_) if data.segmentations is not None else None
            found.append(DetectedObject(name, 1.0, group, (left, top, right, bottom), mask))
        return found

    def _detected(self, run: Predictions, row: int) -> DetectedObject:
        label, (left, top, width, height) = int(run.labels[row]), run.boxes[row].tolist()
        mask = None
        if run.masks is not None:
            image = run.images[row]
            size = (self.test_set.data.heights[image], self.test_set.data.widths[image])
            mask = mask_api.decode(run.masks.rle(row, size)).astype(np.bool_)
        box = (left, top, left + width, top + height)
        return DetectedObject(
            self.categories.names[label], float(run.scores[row]), self.categories.groups[label], box, mask
        )
