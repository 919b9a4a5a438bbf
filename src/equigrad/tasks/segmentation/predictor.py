"""A trained segmenter on images of any source."""

from collections.abc import Collection, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from equigrad.data.images.sources import ImageSource
from equigrad.labels import BACKGROUND
from equigrad.tasks.equal_shapes import equal_shapes
from equigrad.tasks.prediction import check_threshold
from equigrad.tasks.segmentation.prediction import Segmentation


class SegmentationPredictor:
    """From images to their label maps.

    Args:
        model: in evaluation mode, gives `[{"labels": (H, W), "scores": (H, W)}]`.
        class_names: C names.
        tail: categories of the tail group, which are outlined and marked as rare.
    """

    def __init__(self, model: nn.Module, class_names: Sequence[str], tail: Collection[int]) -> None:
        self.model, self.names, self.tail = model, tuple(class_names), frozenset(tail)

    @torch.no_grad()
    def __call__(self, sources: Sequence[ImageSource], threshold: float | None = None) -> list[Segmentation]:
        """A label map for each image; pixels below the threshold, by default none, have no category."""
        check_threshold(threshold or 0.0)
        images = [torch.from_numpy(np.array(source.read())).permute(2, 0, 1) for source in sources]
        device = next(self.model.parameters()).device
        found: dict[int, Tensor] = {}
        for indices in equal_shapes(images):
            predictions = self.model(torch.stack([images[index] for index in indices]).to(device))
            for index, prediction in zip(indices, predictions, strict=True):
                labels = prediction["labels"].short()
                found[index] = labels.masked_fill(prediction["scores"] < threshold, BACKGROUND) if threshold else labels
        return [
            Segmentation(source, found[index].cpu().numpy(), self.names, self.tail)
            for index, source in enumerate(sources)
        ]
