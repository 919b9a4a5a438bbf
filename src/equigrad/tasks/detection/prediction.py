"""The objects of an image."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from equigrad.analysis.pictures.objects import IMAGE_SIZE, DetectedObject, draw_objects
from equigrad.analysis.pictures.text import category_text, one_line
from equigrad.data.images.sources import ImageSource
from equigrad.evaluation.detection.evaluator import encode_masks
from equigrad.models.detection.two_stage.mask_head import paste_masks
from equigrad.run_files import CATEGORIES
from equigrad.tasks.categories import TrainedCategories
from equigrad.tasks.prediction import check_threshold, supervision

_NUM_NAMED = 5  # objects in the summary


@dataclass(frozen=True)
class ShownObjects:
    """Which detections are returned and drawn; without a threshold, detectors return hundreds with tiny scores.

    Args:
        threshold: minimum score.
        limit: maximum number of objects to draw, the best ones.
    """

    threshold: float = 0.3
    limit: int = 30

    def __post_init__(self) -> None:
        check_threshold(self.threshold)
        if self.limit < 1:
            raise ValueError(f"limit must be at least 1, got {self.limit}")


@dataclass(frozen=True, eq=False)
class Detections:
    """Objects with a score of at least the threshold, best first.

    Args:
        source: the image.
        size: height and width of the image.
        boxes: (K, 4), x1, y1, x2, y2 in pixels of the image.
        labels: (K,) categories.
        scores: (K,).
        categories: that the model was trained on.
        shown: the threshold, and how many are drawn.
        box_masks: probabilities (K, M, M) inside the boxes; None if the model has no masks.
        next_best: label and score of the best object below the threshold, if there is one.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = ("name", "label", "score", "group", "x1", "y1", "x2", "y2")

    source: ImageSource
    size: tuple[int, int]
    boxes: NDArray[np.float32]
    labels: NDArray[np.int64]
    scores: NDArray[np.float32]
    categories: TrainedCategories = field(repr=False)
    shown: ShownObjects
    box_masks: NDArray[np.float32] | None = field(default=None, repr=False)
    next_best: tuple[int, float] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def path(self) -> Path | None:
        """The file of the image, if there is one."""
        return self.source.path

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each object's category."""
        return tuple(self.categories.names[label] for label in self.labels)

    @property
    def masks(self) -> NDArray[np.bool_] | None:
        """(K, H, W) of the size of the image, computed on access; None if the model has no masks."""
        if self.box_masks is None:
            return None
        masks = np.zeros((len(self), *self.size), dtype=np.bool_)
        for index, mask in enumerate(self._each_mask()):
            masks[index] = mask
        return masks

    @property
    def summary(self) -> str:
        """How many were found and which; if none, the best of those below the threshold."""
        if not len(self):
            nearest = f"; the best is {self._named(*self.next_best)}" if self.next_best else ""
            least = f" with a score of {self.shown.threshold:g} or more" if self.shown.threshold else ""
            return f"no object{least}{nearest}"
        count = f"{len(self)} object{'s' if len(self) > 1 else ''}"
        drawn = f", the best {self.shown.limit} drawn" if self.shown.limit < len(self) else ""
        best = slice(min(_NUM_NAMED, self.shown.limit))
        named = [
            self._named(*pair) for pair in zip(self.labels[best].tolist(), self.scores[best].tolist(), strict=True)
        ]
        more = f" and {len(self) - len(named)} more" if len(named) < len(self) else ""
        return f"{count}{drawn}: {', '.join(named)}{more}"

    def rows(self) -> list[tuple[Any, ...]]:
        """Name, label, score, group and box of each object."""
        columns = (self.labels.tolist(), self.scores.tolist(), self.boxes.tolist())
        return [
            (self.categories.names[label], label, score, self.categories.groups[label], *box)
            for label, score, box in zip(*columns, strict=True)
        ]

    def draw(self, longest: int = IMAGE_SIZE) -> Image.Image:
        """The image with its best objects, coloured by how often their categories were trained.

        Args:
            longest: length of the longer side in pixels.
        """
        best = islice(zip(self.rows(), self._each_mask(), strict=True), self.shown.limit)
        objects = [
            DetectedObject(category_text(name, label), score, group, tuple(box), mask)
            for (name, label, score, group, *box), mask in best
        ]
        return draw_objects(self.source.read(), objects, longest)

    def to_coco(self, image_id: int | str | None = None) -> list[dict[str, Any]]:
        """The objects in COCO's result format: ids of the annotation file, boxes as x, y, width and height.

        Args:
            image_id: id of the image in its annotation file, or any name; None is the name of the image file.
        """
        if image_id is None:
            if self.path is None:
                raise ValueError("to_coco(image_id): an image that was given as pixels has no name; give its id")
            image_id = self.path.name
        if self.categories.ids is None:
            raise ValueError(f"the run's {CATEGORIES} has no ids of categories; `equigrad evaluate RUN` adds them")
        # As evaluations compute them: rounding may put the second corner before the first.
        corners, sides = self.boxes[:, :2], np.maximum(self.boxes[:, 2:] - self.boxes[:, :2], 0)
        columns = (self.labels.tolist(), np.concatenate([corners, sides], 1).tolist(), self.scores.tolist())
        entries: list[dict[str, Any]] = [
            {"image_id": image_id, "category_id": self.categories.ids[label], "bbox": box, "score": score}
            for label, box, score in zip(*columns, strict=True)
        ]
        for entry, mask in zip(entries, self._each_mask(), strict=True):
            if mask is not None:
                (counts,) = encode_masks(torch.from_numpy(mask)[None])
                entry["segmentation"] = {"size": list(self.size), "counts": counts.decode("ascii")}
        return entries

    def to_supervision(self) -> Any:
        """`supervision.Detections`, if that library is installed."""
        return supervision().Detections(
            xyxy=self.boxes,
            mask=self.masks if len(self) else None,
            confidence=self.scores,
            class_id=self.labels,
            data={"class_name": np.array(self.names, dtype=np.str_)},
        )

    def _named(self, label: int, score: float) -> str:
        shown = f"{score:.2f}" if score >= 0.01 else f"{score:.1g}"  # not 0.00, as some --threshold has let it through
        return f"{one_line(self.categories.names[label])} {shown} ({self.categories.groups[label]})"

    def _each_mask(self) -> Iterator[NDArray[np.bool_] | None]:
        """The mask (H, W) of each object, one at a time: hundreds of the size of a photograph would fill the memory."""
        if self.box_masks is None:
            yield from [None] * len(self)
            return
        for inside, box in zip(torch.from_numpy(self.box_masks), torch.from_numpy(self.boxes), strict=True):
            yield paste_masks(inside[None], box[None], self.size)[0].bool().numpy()
