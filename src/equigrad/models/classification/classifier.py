"""Image classifiers, made of a backbone, a last layer, a loss and scores that are passed in.

    backbone = resnet50()
    model = build_classifier(backbone, 1000, equigrad.SoftmaxEqualizationLoss(1000), equigrad.SoftmaxScores())
    losses = model(images, {"labels": labels})       # training: {"classification": loss}
    predictions = model(images)                      # evaluation: [{"scores": (C,)}, ...]

Paths of parts, for `frozen` and for rules of the optimiser, are `backbone`, `classifier` and `classification_loss`;
those inside a backbone are in its module. "Last block and classifier trained", as on Places-LT, is then
`frozen=("backbone.conv1", "backbone.bn1", "backbone.layer1", "backbone.layer2", "backbone.layer3")`, with
also `"backbone.layer4.0", "backbone.layer4.1"` if "last block" means only the last three convolutions.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from equigrad.models.classification.cosine_classifier import CosineClassifier
from equigrad.models.counted_samples import num_counted
from equigrad.models.scores import Scores, bias_for_prior


class Classifier(nn.Module):
    """Predicts one category for each image.

    Args:
        backbone: from images (N, 3, H, W) to features (N, D); it normalises the images itself.
        classifier: from features to logits, `nn.Linear` or `CosineClassifier`.
        classification_loss: called with logits and labels.
        scores: from logits to scores (N, C).
        teacher: for distillation, from images to logits; the loss then receives these as a third argument. A trained
            `Classifier` gives one: `FrozenTeacher(nn.Sequential(trained.backbone, trained.classifier))`.
    """

    def __init__(
        self,
        backbone: nn.Module,
        classifier: nn.Module,
        classification_loss: nn.Module,
        scores: Scores,
        *,
        teacher: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.classifier = classifier
        self.classification_loss = classification_loss
        self.scores = scores
        self.teacher = teacher
        self.sees_features = False
        """Whether inputs are features (N, D), computed before by the frozen backbone, and not images."""

    def features(self, images: Tensor) -> Tensor:
        """Features (N, D) of the backbone, the input of the last layer."""
        features: Tensor = images if self.sees_features else self.backbone(images)
        return features

    def logits(self, images: Tensor) -> Tensor:
        """Logits (N, C), or more columns where the scores ask for them."""
        logits: Tensor = self.classifier(self.features(images))
        return logits

    def forward(
        self, images: Tensor, targets: Mapping[str, Any] | None = None
    ) -> dict[str, Tensor] | list[dict[str, Tensor]]:
        """In training the losses, otherwise one `{"scores": (C,)}` an image.

        Args:
            images: (N, 3, H, W), or their features; see `sees_features`.
            targets: for training, `targets["labels"]` (N,); with a `targets["normalizer"]`, which a loss of `equigrad`
                takes, the loss is divided by it and not by the number of samples.
        """
        logits = self.logits(images)
        if not self.training:
            # Half precision rounds close scores to ties.
            return [{"scores": row} for row in self.scores(logits.float())]
        if targets is None:
            raise ValueError("training needs targets; call eval() for predictions")
        extra = () if self.teacher is None else (self.teacher(images),)
        options = {"normalizer": targets["normalizer"]} if "normalizer" in targets else {}
        return {"classification": self.classification_loss(logits, targets["labels"], *extra, **options)}

    def num_counted(self, targets: Mapping[str, Any]) -> float | None:
        """Number of samples that the loss is the mean of; None if it is not a mean over samples."""
        return num_counted(self.classification_loss, targets["labels"])


def build_classifier(
    backbone: nn.Module,
    num_classes: int,
    classification_loss: nn.Module,
    scores: Scores,
    *,
    cosine_temperature: float | None = None,
    bias_prior: float | None = None,
    teacher: nn.Module | None = None,
) -> Classifier:
    """A classifier of `num_classes` categories on a backbone with the attribute `num_features`.

    Args:
        backbone: see `Classifier`.
        num_classes: C.
        classification_loss: see `Classifier`.
        scores: decides how many columns the classifier has.
        cosine_temperature: None is a linear classifier; a number, 30 as published, a cosine classifier.
        bias_prior: probability each sigmoid starts with, such as 0.001; None leaves the bias of the layer as it is.
        teacher: see `Classifier`.
    """
    num_features = getattr(backbone, "num_features", None)
    if not isinstance(num_features, int):
        raise ValueError(f"backbone must have an integer num_features, got {type(backbone).__name__} without it")
    layer = classifier_layer(
        num_features, scores.num_logits(num_classes), cosine_temperature=cosine_temperature, bias_prior=bias_prior
    )
    return Classifier(backbone, layer, classification_loss, scores, teacher=teacher)


def classifier_layer(
    num_features: int, num_logits: int, *, cosine_temperature: float | None = None, bias_prior: float | None = None
) -> nn.Linear | CosineClassifier:
    """The last layer; see `build_classifier`. A cosine classifier has a bias only where a prior asks for it."""
    layer: nn.Linear | CosineClassifier
    if cosine_temperature is None:
        layer = nn.Linear(num_features, num_logits)
    else:
        has_bias = bias_prior is not None
        layer = CosineClassifier(num_features, num_logits, temperature=cosine_temperature, bias=has_bias)
    if bias_prior is not None and layer.bias is not None:
        nn.init.constant_(layer.bias, bias_for_prior(bias_prior))
    return layer
