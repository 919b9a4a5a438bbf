"""Second stages of two-stage detectors as settings: what is kept of a finished run, and what is trained now."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn

from equigrad.decoupling import learn_scales, retrain_classifier
from equigrad.models.detection.two_stage import rcnn
from equigrad.models.detection.two_stage.second_stages import CLASSIFIER, load_representation


@dataclass(frozen=True)
class NewClassifier:
    """A second stage with a new classifier, of whatever loss, on the representation of the first: cRT and BAGS."""

    def load(self, model: nn.Module, weights: Mapping[str, Tensor]) -> None:
        """Take over all but the classifier."""
        load_representation(model, weights)

    def change(self, model: nn.Module) -> None:
        """Freeze all but the classifier, which starts anew."""
        retrain_classifier(model, CLASSIFIER)


@dataclass(frozen=True)
class NewScales:
    """A second stage that keeps the classifier and learns a scale for each category: LWS."""

    def load(self, model: nn.Module, weights: Mapping[str, Tensor]) -> None:
        """Take over everything; the classifier means something for the loss alone that it was trained with."""
        for name in sorted(weights.keys() ^ model.state_dict().keys()):
            lacking = "this recipe" if name in weights else "the first stage"
            raise ValueError(f"the classifier is kept, so both stages need the same loss: {lacking} has no {name}")
        model.load_state_dict(weights)

    def change(self, model: nn.Module) -> None:
        """Freeze all but the scales; as published for detectors, the bias is not scaled."""
        num_classes = cast(rcnn.RCNN, model).roi_heads.num_classes
        learn_scales(model, CLASSIFIER, scale_bias=False, num_classes=num_classes)
