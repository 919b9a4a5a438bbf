"""Methods as settings: a loss, the scores that go with it, and further parts such as a sampler or a second stage."""

from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from equigrad.decoupling import align, learn_scales, retrain_classifier
from equigrad.models.classification.cosine_classifier import CosineClassifier
from equigrad.models.detection.two_stage.roi_head import RoIClassifier
from equigrad.tasks.losses import ClassifierLoss, DenseLoss, Distillation, Eqfl, Evfl, QualityFocal, RoILoss
from equigrad.tasks.samplers import SamplerKind
from equigrad.tasks.scores import ClassifierScores, RoIScores, Softmax

BatchNorm = Literal["frozen", "moving"]


@dataclass(frozen=True)
class RetrainClassifier:
    """cRT: the classifier is re-initialised, everything else is frozen.

    Args:
        batch_norm: whether batch norms of the frozen part keep updating, as in the published code.
    """

    batch_norm: BatchNorm = "moving"

    def change(self, model: nn.Module) -> None:
        """Change the classifier of a finished run into what this stage trains."""
        retrain_classifier(model, classifier="classifier", batch_norm=self.batch_norm)


@dataclass(frozen=True)
class LearnScales:
    """LWS: a scale per category is learnt, everything else is frozen.

    Args:
        batch_norm: whether batch norms of the frozen part keep updating, as in the published code.
    """

    batch_norm: BatchNorm = "moving"

    def change(self, model: nn.Module) -> None:
        """Change the classifier of a finished run into what this stage trains."""
        learn_scales(model, classifier="classifier", batch_norm=self.batch_norm)


@dataclass(frozen=True)
class Align:
    """DisAlign: scales, shifts and a confidence are learnt, everything else is frozen.

    Args:
        batch_norm: whether batch norms of the frozen part keep updating.
    """

    batch_norm: BatchNorm = "frozen"

    def change(self, model: nn.Module) -> None:
        """Change the classifier of a finished run into what this stage trains."""
        align(model, classifier="classifier", batch_norm=self.batch_norm)


@dataclass(frozen=True)
class Method:
    """How images or pixels are classified.

    Args:
        loss: classification loss.
        scores: how logits become probabilities.
        bias_prior: initial probability of each category, for sigmoid losses; None starts the bias at 0.
        cosine_temperature: temperature of a cosine classifier; None is a linear classifier.
        second_stage: for methods that retrain part of the model of an earlier run (`init`).
        sampler: order of the training images.
    """

    loss: ClassifierLoss
    scores: ClassifierScores = Softmax()  # noqa: RUF009
    bias_prior: float | None = None
    cosine_temperature: float | None = None
    second_stage: RetrainClassifier | LearnScales | Align | None = None
    sampler: SamplerKind = "random"

    @property
    def distils(self) -> bool:
        """Whether the run in `init` is the teacher."""
        return isinstance(self.loss, Distillation)

    @property
    def needs_init(self) -> bool:
        """Whether the method starts from a finished run."""
        return self.second_stage is not None or self.distils


@dataclass(frozen=True)
class DenseMethod:
    """How the anchors or locations of a one-stage detector are classified.

    Args:
        loss: classification loss.
    """

    loss: DenseLoss

    @property
    def with_quality(self) -> bool:
        """Whether the loss takes the IoU of the positives."""
        return isinstance(self.loss, Eqfl | Evfl | QualityFocal)


@dataclass(frozen=True)
class LinearClassifier:
    """A linear layer with the published initial weights.

    Args:
        prior: initial probability of each sigmoid; None starts the bias at 0.
    """

    prior: float | None = None

    def __call__(self, num_features: int, num_logits: int) -> nn.Module:
        """Build the layer, from features (N, num_features) to logits."""
        return RoIClassifier(num_features, num_logits, prior=self.prior)


@dataclass(frozen=True)
class CosineLayer:
    """A cosine classifier.

    Args:
        temperature: the largest logit before the bias.
        bias: whether a bias is learnt.
        norm_offset: added to both norms.
    """

    temperature: float = 30.0
    bias: bool = False
    norm_offset: float = 0.0

    def __call__(self, num_features: int, num_logits: int) -> nn.Module:
        """Build the layer, from features (N, num_features) to cosines times the temperature."""
        settings: dict[str, Any] = vars(self)
        return CosineClassifier(num_features, num_logits, **settings)


@dataclass(frozen=True)
class RoIMethod:
    """How the proposals of a two-stage detector are classified.

    Args:
        loss: classification loss; `equigrad.models.detection.two_stage.roi_scores` lists the scores that fit it.
        scores: how logits become probabilities.
        classifier: the layer that computes the logits.
        has_background_column: whether the last column is background, as in cross-entropy with C + 1 columns.
        divide_by_rois: divide the loss by the number of all RoIs.
    """

    loss: RoILoss
    scores: RoIScores
    classifier: LinearClassifier | CosineLayer = LinearClassifier()
    has_background_column: bool = False
    divide_by_rois: bool = False
