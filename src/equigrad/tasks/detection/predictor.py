"""A trained detector on images of any source."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torchvision import tv_tensors  # type: ignore[import-untyped]
from torchvision.transforms.v2 import functional  # type: ignore[import-untyped]

from equigrad.data.detection.geometry import Item, Target, boxes_to_original
from equigrad.data.detection.transforms import DetectionTransform
from equigrad.data.images.sources import ImageSource
from equigrad.tasks.categories import TrainedCategories
from equigrad.tasks.detection.prediction import Detections, ShownObjects
from equigrad.tasks.detection.preprocessing import Collate
from equigrad.tasks.equal_shapes import equal_shapes


class DetectionPredictor:
    """From images to their objects.

    Args:
        model: in evaluation mode.
        categories: it was trained on.
        transform: transform of test images.
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

    @property
    def names(self) -> tuple[str, ...]:
        """Of the C categories, in the order of labels."""
        return self.categories.names

    @torch.no_grad()
    def __call__(self, sources: Sequence[ImageSource], threshold: float | None = None) -> list[Detections]:
        """The objects of each image that reach the threshold, by default that of the recipe."""
        shown = self.shown if threshold is None else replace(self.shown, threshold=threshold)
        items = [self._item(source) for source in sources]
        device = next(self.model.parameters()).device
        found: dict[int, Detections] = {}
        for indices in equal_shapes([image for image, _ in items]):
            images, targets = self.collate([items[index] for index in indices])
            predictions = self.model(images.to(device), targets)
            for index, prediction, target in zip(indices, predictions, targets, strict=True):
                found[index] = self._detections(sources[index], prediction, target, shown)
        return [found[index] for index in range(len(sources))]

    def _item(self, source: ImageSource) -> Item:
        image = source.read()
        return self.transform(functional.to_image(image), _unknown(image.height, image.width))

    def _detections(
        self, source: ImageSource, prediction: dict[str, Tensor], target: Target, shown: ShownObjects
    ) -> Detections:
        height, width = (int(side) for side in target["original_size"])
        scores, order = prediction["scores"].float().sort(descending=True, stable=True)
        num_found = int((scores >= shown.threshold).sum())
        chosen = order[:num_found]
        boxes = boxes_to_original(prediction["boxes"][chosen], target["image_size"], (height, width))
        below = order[num_found : num_found + 1]
        next_best = zip(prediction["labels"][below].tolist(), prediction["scores"][below].tolist(), strict=True)
        return Detections(
            source,
            (height, width),
            boxes.float().cpu().numpy(),
            prediction["labels"][chosen].cpu().numpy(),
            scores[:num_found].cpu().numpy(),
            self.categories,
            shown,
            prediction["masks"][chosen].float().cpu().numpy() if "masks" in prediction else None,
            next(next_best, None),
        )


def _unknown(height: int, width: int) -> Target:
    """The target of an image that nothing is known of."""
    return {
        "boxes": tv_tensors.BoundingBoxes(torch.zeros(0, 4), format="XYXY", canvas_size=(height, width)),
        "labels": torch.zeros(0, dtype=torch.int64),
        "original_size": (height, width),
    }
