"""A trained classifier on images of any source."""

from collections.abc import Callable, Sequence

import torch
from PIL import Image
from torch import Tensor, nn

from equigrad.data.frequency import Counts, shot_split
from equigrad.data.images.sources import ImageSource
from equigrad.tasks.classification.prediction import Classification
from equigrad.tasks.classification.top_predictions import NUM_BEST
from equigrad.tasks.prediction import check_threshold


class LabelPredictor:
    """From images to their categories.

    Args:
        model: in evaluation mode, gives `[{"scores": (C,)}]`.
        transform: transform of test images.
        class_names: C names.
        category_counts: training images of each category, (C,): they decide its group.
        threshold: least score of a category, unless a call gives one.
        num_shown: categories that a prediction lists at most; None is all that reach the threshold.
    """

    def __init__(
        self,
        model: nn.Module,
        transform: Callable[[Image.Image], Tensor],
        class_names: Sequence[str],
        category_counts: Counts,
        *,
        threshold: float = 0.0,
        num_shown: int | None = NUM_BEST,
    ) -> None:
        self.model, self.transform, self.names = model, transform, tuple(class_names)
        self.threshold, self.num_shown = threshold, num_shown
        groups = shot_split(category_counts)
        self.group_of = {int(label): group for group, members in groups.items() for label in members}

    @torch.no_grad()
    def __call__(self, sources: Sequence[ImageSource], threshold: float | None = None) -> list[Classification]:
        """The categories of each image that reach the threshold."""
        threshold = self.threshold if threshold is None else threshold
        check_threshold(threshold)
        batch = torch.stack([self.transform(source.read()) for source in sources])
        predictions = self.model(batch.to(next(self.model.parameters()).device))
        return [
            self._classification(source, prediction["scores"].float().cpu(), threshold)
            for source, prediction in zip(sources, predictions, strict=True)
        ]

    def _classification(self, source: ImageSource, scores: Tensor, threshold: float) -> Classification:
        scores, order = scores.sort(descending=True, stable=True)
        num_found = int((scores >= threshold).sum())
        labels = order[:num_found].tolist()
        return Classification(
            source,
            order[:num_found].numpy(),
            tuple(self.names[label] for label in labels),
            scores[:num_found].numpy(),
            tuple(self.group_of[label] for label in labels),
            self.num_shown,
        )
