import numpy as np
import pytest

from equigrad.evaluation.detection.category_slices import SIZES, evaluate_slice, slices
from equigrad.evaluation.detection.prediction_files import read_predictions
from equigrad.evaluation.detection.rules import LVIS, select
from evaluation.detection_files import annotations_of, detection, detections_file, federated


@pytest.fixture
def task(tmp_path):
    """Two images, three categories; what it takes to slice them."""
    content = federated(
        {2: ([3], []), 1: ([], [])}, [(2, 1, [0, 0, 40, 40]), (1, 2, [0, 0, 9, 9]), (2, 2, [5, 5, 9, 9])]
    )
    drawn = [
        detection(1, 2, [0, 0, 9, 9], 0.5),
        detection(2, 2, [50, 50, 9, 9], 0.5),
        detection(2, 3, [0, 0, 9, 9], 0.9),
    ]
    annotations = annotations_of(tmp_path, content)
    predictions = read_predictions(detections_file(tmp_path, drawn), annotations)
    return predictions, select(predictions, annotations, LVIS), annotations, LVIS, "bbox"


def test_each_slice_has_the_annotations_and_detections_of_its_categories(task):
    parts = list(slices(*task, detections_at_once=1))
    assert [(part.first, part.num) for part in parts] == [(0, 2), (2, 1)]
    assert [len(part.scores) for part in parts] == [2, 1]
    assert [len(part.annotations.areas) for part in parts] == [3, 0]


def test_scores_of_a_slice_are_those_worked_out_by_hand(task):
    (part,) = slices(*task)
    scores = evaluate_slice(part)
    assert scores.num_annotations.tolist() == [1, 2, 0]
    # Nothing found of category 1. Of category 2 the first half: image 1 comes first among equal scores.
    assert scores.precision[:2, 0, 0] == pytest.approx([0, 51 / 101])
    assert scores.recall[:2, 0, 0].tolist() == [0, 0.5]
    assert np.isnan(scores.precision[2]).all()
    # 40 x 40 is medium, 9 x 9 small, and nothing is large.
    assert np.isnan(scores.precision[:, :, 0]).tolist() == [
        [False, True, False, True],
        [False, False, True, True],
        [True] * len(SIZES),
    ]
