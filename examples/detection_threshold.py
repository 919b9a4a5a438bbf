"""The score from which the detections of a run are worth showing: precision, recall and F1 for each threshold.

    equigrad evaluate runs/own --set data.test=held_out.json --output runs/held_out
    python examples/detection_threshold.py runs/held_out

Use images that are in neither the training nor the test set: a threshold chosen on test images makes the result too
good. A detection is correct if its box has an IoU of 0.5 or more with an object of its category that no better
detection has found.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from torchvision.ops import box_iou

from equigrad.data.detection.data import DetectionData
from equigrad.evaluation.detection.prediction_shards import read_shards
from equigrad.evaluation.detection.predictions import Predictions
from equigrad.run_files import PREDICTIONS
from equigrad.tasks.detection.run import stored_sets
from equigrad.tasks.run_folder import recipe_of_run

THRESHOLDS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7)
MIN_IOU = 0.5


def right_detections(found: Predictions, truth: DetectionData) -> np.ndarray:
    """(N,) whether each detection is right."""
    is_right = np.zeros(len(found), dtype=bool)
    corners = torch.from_numpy(found.boxes.copy()).float()
    corners[:, 2:] += corners[:, :2]
    for image, (start, end) in enumerate(zip(truth.offsets[:-1], truth.offsets[1:], strict=True)):
        ours = np.flatnonzero(found.images == image)
        ours = ours[np.argsort(-found.scores[ours], kind="stable")]
        overlaps = box_iou(corners[ours], torch.from_numpy(truth.boxes[start:end]).float()).numpy()
        overlaps[found.labels[ours, None] != truth.labels[start:end]] = 0
        for row, detection in enumerate(ours):
            best = overlaps[row].argmax() if end > start else 0
            if end > start and overlaps[row, best] >= MIN_IOU:
                is_right[detection] = True
                overlaps[:, best] = 0  # found
    return is_right


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of an evaluated run")
    folder = parser.parse_args().run
    test_set = stored_sets(recipe_of_run(folder)).test.data
    found = read_shards(folder / PREDICTIONS, test_set)
    is_right, num_objects = right_detections(found, test_set), int((~test_set.is_crowd.astype(bool)).sum())
    print("threshold  shown  precision  recall  F1")
    for threshold in THRESHOLDS:
        is_shown = found.scores >= threshold
        num_right, num_shown = int(is_right[is_shown].sum()), int(is_shown.sum())
        precision, recall = num_right / max(num_shown, 1), num_right / max(num_objects, 1)
        f1 = 2 * num_right / max(num_shown + num_objects, 1)
        print(f"{threshold:9.2f}  {num_shown:5}  {100 * precision:9.1f}  {100 * recall:6.1f}  {100 * f1:4.1f}")


if __name__ == "__main__":
    main()
