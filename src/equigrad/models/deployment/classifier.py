"""A classifier to deploy."""

from torch import Tensor, nn

from equigrad.models.classification.classifier import Classifier


class DeployedClassifier(nn.Module):
    """Scores of images.

    Args:
        model: a trained one; its loss and its teacher are left out.
    """

    def __init__(self, model: Classifier) -> None:
        super().__init__()
        self.backbone, self.classifier, self.scores = model.backbone, model.classifier, model.scores

    def forward(self, images: Tensor) -> Tensor:
        """Scores (N, C) of images (N, 3, H, W) of uint8."""
        return self.scores(self.classifier(self.backbone(images)).float())
