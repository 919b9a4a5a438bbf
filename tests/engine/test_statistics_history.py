import io
import os
import zipfile

import numpy as np
import pytest
import torch
from torch import nn

from equigrad import GradientStatistics, SigmoidEqualizationLoss
from equigrad.engine.statistics_history import StatisticsHistory, tail_and_head_ratio, tail_and_head_won
from equigrad.meter import Recognition
from equigrad.meter.watched_losses import WatchedLosses


@pytest.fixture
def model():
    return nn.ModuleDict({"head": nn.ModuleDict({"criterion": SigmoidEqualizationLoss(3)}), "body": nn.Linear(1, 1)})


def test_snapshots_become_rows_and_a_resumed_run_forgets_those_after_its_checkpoint(model, tmp_path):
    statistics = model["head"]["criterion"].statistics
    history = StatisticsHistory(tmp_path, 0)
    for step in (0, 10, 20):
        statistics.positive.fill_(step)
        history.record(step, model)
    history.write()
    resumed = StatisticsHistory(tmp_path, 10)
    statistics.positive.fill_(15)
    resumed.record(15, model)
    resumed.write()
    stored = np.load(tmp_path / "statistics.npz")
    assert stored["steps"].tolist() == [0, 10, 15]
    assert stored["head.criterion.statistics.positive"].tolist() == [[0.0] * 3, [10.0] * 3, [15.0] * 3]
    assert stored["head.criterion.statistics.negative"].shape == (3, 3)


def test_a_model_without_statistics_has_no_history(tmp_path):
    history = StatisticsHistory(tmp_path, 0)
    history.record(1, nn.Linear(1, 1))
    history.write()
    assert list(tmp_path.iterdir()) == []


def lying_header(file):
    """An array that claims a billion rows; its file has a few hundred bytes."""
    content = io.BytesIO()
    np.save(content, np.zeros((3, 3)))
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("steps.npy", content.getvalue().replace(b"(3, 3), }     ", b"(1000000000,),}"))


def zip_bomb(file):
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("steps.npy", bytes(10_000_000))


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(b"PK\x03\x04 and nothing more"),
        lambda file: os.truncate(file, 0),
        lambda file: os.truncate(file, file.stat().st_size - 1),
        lambda file: np.savez(file, steps=np.array([3, 1]), a=np.zeros((2, 3))),
        lambda file: np.savez(file, steps=np.array([1, 3]), a=np.zeros((3, 3))),
        lambda file: np.savez(file, steps=np.array(["1"]), a=np.zeros((1, 3))),
        lambda file: np.savez(file, a=np.zeros((1, 3))),
        lying_header,
        zip_bomb,
    ],
)
def test_a_damaged_history_is_reported_in_one_line_and_does_not_stop_the_run(damage, model, tmp_path):
    history = StatisticsHistory(tmp_path, 0)
    history.record(0, model)
    history.write()
    damage(tmp_path / "statistics.npz")
    warnings = []
    history = StatisticsHistory(tmp_path, 5, warnings.append)
    (warning,) = warnings
    assert warning.startswith(f"warning: {tmp_path / 'statistics.npz'}: ")
    assert warning.endswith("; the gradient statistics up to step 5 are lost to reports")
    history.record(5, model)
    history.write()
    assert np.load(tmp_path / "statistics.npz")["steps"].tolist() == [5]


def test_tail_and_head_are_thirds_by_positive_gradient():
    statistics = GradientStatistics(7)  # thirds of two: categories 6, 5 and 1, 0
    statistics.positive.copy_(torch.tensor([100.0, 90.0, 50.0, 40.0, 30.0, 2.0, 1.0]))
    statistics.negative.copy_(torch.tensor([100.0, 100.0, 50.0, 50.0, 50.0, 20.0, 100.0]))
    tail, head = tail_and_head_ratio(statistics)
    assert (tail, head) == (pytest.approx(0.01), pytest.approx(0.9))  # of two, the median is the smaller


def test_untouched_statistics_count_as_balanced():
    assert tail_and_head_ratio(GradientStatistics(1)) == (1.0, 1.0)


def test_wins_of_the_watched_losses_are_recorded_beside_the_statistics(model, tmp_path):
    watched = WatchedLosses(model, 3)
    model["head"]["criterion"](torch.eye(3).requires_grad_(), torch.tensor([0, 1, 0]))
    history = StatisticsHistory(tmp_path, 0)
    history.record(1, model, watched)
    history.write()
    stored = np.load(tmp_path / "statistics.npz")
    assert stored["head.criterion.seen"].tolist() == [[2, 1, 0]]
    assert stored["head.criterion.won"].tolist() == [[1, 1, 0]]


def test_tail_and_head_won_are_means_over_thirds_of_what_was_seen():
    recognition = Recognition(7)
    recognition.seen.copy_(torch.tensor([0.0, 9, 8, 5, 4, 2, 1]))
    recognition.compared.copy_(recognition.seen)
    recognition.won.copy_(torch.tensor([0.0, 9, 4, 5, 4, 1, 0]))
    assert tail_and_head_won(recognition) == (pytest.approx(0.25), pytest.approx(0.75))
    assert tail_and_head_won(Recognition(2)) == (0.0, 0.0)
