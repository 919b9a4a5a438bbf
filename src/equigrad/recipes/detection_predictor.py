"""A trained detector on single images."""

import torch
from PIL import Image
from torch import nn

from equigrad.analysis.prediction_pictures import PredictedImage
from equigrad.data.detection_transforms import DetectionTransform
from equigrad.recipes.detection_views import Collate
from equigrad.recipes.trained_categories import TrainedCategories


class DetectionPredictor:
    """From an image to its objects.

    Args:
        model: in evaluation mode.
        categories: it was trained on.
        transform: of test images.
        collate: from items to a batch.
    """

    def __init__(
        self, model: nn.Module, categories: TrainedCategories, transform: DetectionTransform, collate: Collate
    ) -> None:
        self.model, self.categories, self.transform, self.collate = model, categories, transform, collate
        self.device = next(model.parameters()).device

    @torch.no_grad()
    def __call__(self, image: Image.Image) -> PredictedImage:
        """The objects of an RGB image."""
        raise NotImplementedError
