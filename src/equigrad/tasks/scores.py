"""Scores as settings: how the logits of a method become probabilities."""

from dataclasses import dataclass

import equigrad
from equigrad.calibration import AdjustedScores, NorCalScores
from equigrad.models.detection.two_stage.roi_scores import SoftmaxBackgroundScores, TwoWayObjectnessScores
from equigrad.models.scores import Scores
from equigrad.tasks.losses import CategoryCounts


@dataclass(frozen=True)
class Softmax:
    """A softmax over the categories."""

    def build(self, counts: CategoryCounts) -> Scores:
        """Build the scores for a training set with these counts."""
        return equigrad.SoftmaxScores()


@dataclass(frozen=True)
class AdjustedSoftmax:
    """Post-hoc logit adjustment: the log prior is taken from the logits of a model trained with CE.

    Args:
        strength: tau, the factor of the log prior.
    """

    strength: float = 1.0

    def build(self, counts: CategoryCounts) -> Scores:
        """Build the scores for a training set with these counts."""
        return AdjustedScores(equigrad.SoftmaxScores(), counts.images.tolist(), strength=self.strength)


@dataclass(frozen=True)
class Sigmoid:
    """A sigmoid for each category."""

    def build(self, counts: CategoryCounts) -> Scores:
        """Build the scores for a training set with these counts."""
        return equigrad.SigmoidScores()


@dataclass(frozen=True)
class SigmoidObjectness:
    """A sigmoid for each category, times that of objectness."""

    def build(self, counts: CategoryCounts) -> Scores:
        """Build the scores for a training set with these counts."""
        return equigrad.SigmoidObjectnessScores()


@dataclass(frozen=True)
class SoftmaxObjectness:
    """A softmax over the categories, times objectness.

    Args:
        two_way: whether objectness is a softmax of two columns.
    """

    two_way: bool = False

    def build(self, counts: CategoryCounts) -> Scores:
        """Build the scores for a training set with these counts."""
        scores = equigrad.SoftmaxObjectnessScores()
        return TwoWayObjectnessScores(scores) if self.two_way else scores


@dataclass(frozen=True)
class SoftmaxBackground:
    """A softmax over the categories and background."""

    def build(self, counts: CategoryCounts) -> Scores:
        """Build the scores for a training set with these counts."""
        return SoftmaxBackgroundScores()


@dataclass(frozen=True)
class NorCal:
    """A softmax over the categories and background, calibrated by the training images of each category.

    Args:
        power: gamma; the published code does not set it, 0.6 is our choice.
    """

    power: float = 0.6

    def build(self, counts: CategoryCounts) -> Scores:
        """Build the scores for a training set with these counts."""
        return NorCalScores(counts.images.tolist(), power=self.power)


@dataclass(frozen=True)
class GroupedSoftmaxProduct:
    """BAGS: each category's probability in its group, times that of the group's foreground."""

    def build(self, counts: CategoryCounts) -> Scores:
        """Build the scores for a training set with these counts."""
        return equigrad.GroupedSoftmaxScores(counts.instances.tolist())


ClassifierScores = Softmax | AdjustedSoftmax | Sigmoid
RoIScores = Sigmoid | SigmoidObjectness | SoftmaxObjectness | SoftmaxBackground | NorCal | GroupedSoftmaxProduct
