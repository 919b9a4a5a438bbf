import numpy as np
import pytest
import torch
from torch import nn

from equigrad import GradientStatistics, SigmoidEqualizationLoss
from equigrad.engine.statistics_history import StatisticsHistory, find_statistics, tail_and_head_ratio


@pytest.fixture
def model():
    return nn.ModuleDict({"head": nn.ModuleDict({"criterion": SigmoidEqualizationLoss(3)}), "body": nn.Linear(1, 1)})


def test_statistics_are_found_wherever_they_are(model):
    assert list(find_statistics(model)) == ["head.criterion.statistics"]


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


def test_a_damaged_history_does_not_stop_the_run(model, tmp_path):
    (tmp_path / "statistics.npz").write_bytes(b"PK\x03\x04 and nothing more")
    history = StatisticsHistory(tmp_path, 5)
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
