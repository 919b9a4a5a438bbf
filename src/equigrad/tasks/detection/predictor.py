"""A trained detector on single images."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from PIL import Image
from torch import Tensor, nn
from torchvision import tv_tensors  # type: ignore[import-untyped]
from torchvision.transforms.v2 import functional  # type: ignore[import-untyped]

from equigrad.analysis.pictures.objects import DetectedObject, draw_objects
from equigrad.analysis.pictures.predictions import PredictedImage
from equigrad.analysis.pictures.text import one_line
from equigrad.data.detection.geometry import Target
from equigrad.data.detection.transforms import DetectionTransform
from equigrad.tasks.categories import TrainedCategories
from equigrad.tasks.detection.original_image import to_original_image
from equigrad.tasks.detection.preprocessing import Collate

_NUM_NAMED = 5  # objects in the line


@dataclass(frozen=True)
class ShownObjects:
    """Which detections are drawn; detectors without a threshold of their own give hundreds with tiny scores.

    Args:
        threshold: least score.
        limit: so many of the best at most.
    """

    threshold: float = 0.3
    limit: int = 30

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise ValueError(f"threshold must be in [0, 1], got {self.threshold}")
        if self.limit < 1:
            raise ValueError(f"limit must be at least 1, got {self.limit}")


class DetectionPredictor:
    """From an image to its objects: drawn on it, and a line with the best.

    Args:
        model: in evaluation mode.
        categories: it was trained on.
        transform: of test images.
        collate: from items to a batch.
        shown: which objects.
    """

    def __init__(
        self,
        model: nn.Module,
        categories: TrainedCategories,
        transform: DetectionTransform,
        collate: Collate,
        shown: ShownObjects,
    ) -> None:
        self.model, self.categories, self.transform, self.collate = model, categories, transform, collate
        self.shown = shown
        self.device = next(model.parameters()).device

    @torch.no_grad()
    def __call__(self, image: Image.Image) -> PredictedImage:
        """The objects of an RGB image."""
        item = self.transform(functional.to_image(image), _unknown(image.height, image.width))
        batch, targets = self.collate([item])
        prediction = self.model(batch.to(self.device), targets)[0]
        scores, order = prediction["scores"].sort(descending=True, stable=True)
        num_found = int((scores >= self.shown.threshold).sum())
        # Chosen before masks are pasted: hundreds of the size of a photograph would fill the memory.
        chosen = order[: min(num_found, self.shown.limit)]
        objects = self._objects(
            to_original_image({name: rows[chosen] for name, rows in prediction.items()}, targets[0])
        )
        best = self._objects({name: rows[order[:1]] for name, rows in prediction.items() if name != "masks"})
        return PredictedImage(draw_objects(image, objects), self._line(objects, num_found, best))

    def _objects(self, prediction: dict[str, Tensor]) -> list[DetectedObject]:
        labels = prediction["labels"].tolist()
        masks = prediction["masks"].bool().cpu().numpy() if "masks" in prediction else [None] * len(labels)
        return [
            DetectedObject(self.categories.names[label], score, self.categories.groups[label], tuple(box), mask)
            for label, score, box, mask in zip(
                labels, prediction["scores"].tolist(), prediction["boxes"].tolist(), masks, strict=True
            )
        ]

    def _line(self, objects: Sequence[DetectedObject], num_found: int, best: Sequence[DetectedObject]) -> str:
        """How many were found and which; if none, the best of those below the threshold."""
        if not objects:
            nearest = f"; the best is {_named(best[0])}" if best else ""
            return f"no object with a score of {self.shown.threshold:g} or more{nearest}"
        count = f"{num_found} object{'s' if num_found > 1 else ''}"
        drawn = f", the best {len(objects)} drawn" if len(objects) < num_found else ""
        named = objects[:_NUM_NAMED]
        more = f" and {num_found - len(named)} more" if len(named) < num_found else ""
        return f"{count}{drawn}: {', '.join(map(_named, named))}{more}"


def _named(found: DetectedObject) -> str:
    return f"{one_line(found.name)} {found.score:.2f} ({found.group})"


def _unknown(height: int, width: int) -> Target:
    """The target of an image that nothing is known of."""
    return {
        "boxes": tv_tensors.BoundingBoxes(torch.zeros(0, 4), format="XYXY", canvas_size=(height, width)),
        "labels": torch.zeros(0, dtype=torch.int64),
        "original_size": (height, width),
    }
