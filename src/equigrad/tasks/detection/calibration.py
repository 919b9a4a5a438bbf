"""NorCal on detections of any tool, without its model."""

from dataclasses import replace

import torch

from equigrad.calibration import norcal_detections
from equigrad.data.frequency import Counts
from equigrad.evaluation.detection.predictions import Predictions


def norcal_predictions(predictions: Predictions, image_counts: Counts, power: float) -> Predictions:
    """Detections with scores that `norcal_detections` has calibrated.

    Args:
        predictions: predictions on a test set.
        image_counts: training images of each category, (C,).
        power: gamma.
    """
    scores, labels = torch.from_numpy(predictions.scores), torch.from_numpy(predictions.labels).long()
    return replace(predictions, scores=norcal_detections(scores, labels, image_counts.tolist(), power=power).numpy())
