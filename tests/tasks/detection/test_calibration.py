import numpy as np
import pytest

from equigrad.evaluation.detection.predictions import Predictions
from equigrad.tasks.detection.calibration import norcal_predictions


def predictions():
    return Predictions(
        images=np.zeros(3, np.int32),
        labels=np.array([0, 1, 0], np.int32),
        boxes=np.zeros((3, 4)),
        scores=np.array([0.9, 0.5, 0.4]),
        areas=np.zeros(3),
    )


def test_scores_are_divided_by_a_power_of_the_images_relative_to_the_rarest():
    calibrated = norcal_predictions(predictions(), np.array([16, 4]), 0.5)
    assert calibrated.scores == pytest.approx([0.45, 0.5, 0.2])
    assert calibrated.labels.tolist() == [0, 1, 0]


def test_no_power_changes_nothing():
    assert norcal_predictions(predictions(), np.array([16, 4]), 0.0).scores.tolist() == predictions().scores.tolist()


def test_a_negative_power_is_refused():
    with pytest.raises(ValueError, match="power must be finite and not negative"):
        norcal_predictions(predictions(), np.array([16, 4]), -1.0)
