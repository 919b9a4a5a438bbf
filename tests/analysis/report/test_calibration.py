import numpy as np
import pytest
import torch

from analysis.run_folders import predictions, write_run
from equigrad.analysis.comparison import compare
from equigrad.analysis.history import RunHistory
from equigrad.analysis.report.calibration import calibration_error, calibration_table, reliability
from equigrad.analysis.report.predictions import read_test_predictions
from equigrad.evaluation.classification import calibration_error as evaluated_error


@pytest.fixture
def comparison_and_predictions(tmp_path):
    random = np.random.default_rng(0)
    labels, confidences = random.integers(0, 6, 500), random.random(500)
    said = np.where(random.random(500) < confidences**2, labels, (labels + 1) % 6)
    comparison = compare(
        [RunHistory.load(write_run(tmp_path / "run", predictions=predictions(labels, said, confidences)))]
    )
    return comparison, read_test_predictions(tmp_path / "run", comparison.categories)


def test_the_error_is_that_of_the_evaluation(comparison_and_predictions):
    _, found = comparison_and_predictions
    expected = evaluated_error(torch.tensor(found.images.confidences), torch.tensor(found.images.is_right))
    assert calibration_error(found.images, np.ones(500, dtype=bool)) == pytest.approx(expected, abs=1e-12)
    assert np.isnan(calibration_error(found.images, np.zeros(500, dtype=bool)))


def test_every_group_has_a_curve_and_a_column(comparison_and_predictions):
    comparison, found = comparison_and_predictions
    curves = reliability(found.images, comparison.categories)
    assert [sum(number for _, _, number in curve) > 50 for curve in curves] == [True] * 3
    assert all(0 <= right <= 100 for curve in curves for _, right, _ in curve)
    confidence = [confidence for confidence, _, _ in curves[0]]
    assert confidence == sorted(confidence)
    header = "".join(f'<th scope="col">{name}</th>' for name in ("all", "frequent", "common", "rare"))
    assert header in calibration_table(comparison, [found])
