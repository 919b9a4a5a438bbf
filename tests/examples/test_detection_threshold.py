import runpy
from types import SimpleNamespace

import numpy as np

from equigrad.evaluation.detection.predictions import Predictions
from scripts import ROOT

right_detections = runpy.run_path(str(ROOT / "examples" / "detection_threshold.py"))["right_detections"]


def test_an_object_is_found_once_by_its_best_detection_of_the_same_category():
    truth = SimpleNamespace(
        offsets=np.array([0, 2, 2]),  # two objects in the first image, none in the second
        boxes=np.array([[0, 0, 10, 10], [20, 20, 30, 30]], dtype=np.float32),
        labels=np.array([0, 1]),
    )
    boxes = np.array([[0, 0, 10, 10], [1, 0, 10, 10], [20, 20, 10, 10], [20, 20, 10, 4], [0, 0, 10, 10]], dtype=float)
    found = Predictions(
        images=np.array([0, 0, 0, 0, 1], dtype=np.int32),
        labels=np.array([0, 0, 0, 1, 0], dtype=np.int32),
        boxes=boxes,
        scores=np.array([0.5, 0.9, 0.8, 0.7, 0.9]),
        areas=boxes[:, 2] * boxes[:, 3],
    )
    # The second is better than the first; then another category, too small a box, and an image without objects.
    assert right_detections(found, truth).tolist() == [False, True, False, False, False]
