"""A trained classifier on single images."""

from collections.abc import Callable, Sequence

import torch
from PIL import Image
from torch import Tensor, nn

from equigrad.analysis.pictures.predictions import PredictedImage, RankedLabel, draw_labels
from equigrad.data.frequency import Counts, shot_split
from equigrad.tasks.classification.top_predictions import NUM_BEST


class LabelPredictor:
    """From an image to its best categories, as a picture and as a line.

    Args:
        model: in evaluation mode, gives `[{"scores": (C,)}]`.
        transform: of test images.
        class_names: C names.
        category_counts: training images of each category, (C,): they decide its group.
    """

    def __init__(
        self,
        model: nn.Module,
        transform: Callable[[Image.Image], Tensor],
        class_names: Sequence[str],
        category_counts: Counts,
    ) -> None:
        self.model, self.transform, self.class_names = model, transform, class_names
        groups = shot_split(category_counts)
        self.group_of = {int(label): group for group, members in groups.items() for label in members}
        self.device = next(model.parameters()).device

    @torch.no_grad()
    def __call__(self, image: Image.Image) -> PredictedImage:
        """The best categories of an RGB image."""
        scores = self.model(self.transform(image).unsqueeze(0).to(self.device))[0]["scores"].float().cpu()
        best = scores.topk(min(NUM_BEST, len(scores)))
        labels = [
            RankedLabel(self.class_names[label], score, self.group_of[label])
            for score, label in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ]
        line = ", ".join(f"{label.name} {100 * label.score:.1f} % ({label.group})" for label in labels)
        return PredictedImage(draw_labels(image, labels), line)
