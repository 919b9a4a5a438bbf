"""Image classifiers: a backbone, a last layer, a loss and scores."""

from typing import TYPE_CHECKING

from equigrad.lazy import lazy_exports

if TYPE_CHECKING:
    from equigrad.models.classification.classifier import Classifier as Classifier, build_classifier as build_classifier
    from equigrad.models.classification.cosine_classifier import CosineClassifier as CosineClassifier
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
