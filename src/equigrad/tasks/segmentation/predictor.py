"""A trained segmenter on single images."""

import io
from collections.abc import Collection, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import nn

from equigrad.analysis.pictures.overlays import overlays_png
from equigrad.analysis.pictures.predictions import PredictedImage

_NUM_NAMED = 5  # categories in the line


class SegmentationPredictor:
    """From an image to its categories: an overlay with a legend, and a line with the largest.

    Args:
        model: in evaluation mode, gives `[{"labels": (H, W)}]`.
        class_names: C names.
        tail: categories of the tail group, which are outlined and marked as rare.
    """

    def __init__(self, model: nn.Module, class_names: Sequence[str], tail: Collection[int]) -> None:
        self.model, self.class_names, self.tail = model, class_names, tail
        self.device = next(model.parameters()).device

    @torch.no_grad()
    def __call__(self, image: Image.Image) -> PredictedImage:
        """The categories of an RGB image."""
        pixels = np.array(image)
        batch = torch.from_numpy(pixels).permute(2, 0, 1)[None].to(self.device)
        labels = self.model(batch)[0]["labels"].cpu().numpy()
        overlay = overlays_png(pixels, {"prediction": labels}, self.class_names, rare=self.tail)
        picture = Image.open(io.BytesIO(overlay)).convert("RGB")
        return PredictedImage(picture, self._line(np.bincount(labels.ravel()) / labels.size))

    def _line(self, shares: NDArray[np.float64]) -> str:
        largest = np.argsort(-shares, kind="stable")[:_NUM_NAMED]
        named = [
            f"{self.class_names[label]} {100 * shares[label]:.1f} %{' (tail)' if label in self.tail else ''}"
            for label in largest.tolist()
            if shares[label]
        ]
        more = int((shares > 0).sum()) - len(named)
        return ", ".join(named) + (f" and {more} more" if more else "")
