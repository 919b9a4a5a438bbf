import pytest
import torch

from equigrad.meter.watched_statistics import WatchedStatistics


def test_views_differ_in_what_they_remember():
    statistics = WatchedStatistics(1, window=8, decay_half_life=1.0)
    for value in range(100):
        statistics.update(torch.tensor([float(value)]), torch.tensor([1.0]))
    assert statistics.view("cumulative").positive.item() == sum(range(100))
    windowed = statistics.view("windowed")
    assert 8 <= windowed.negative.item() <= 9
    assert windowed.positive.item() == pytest.approx(sum(range(100 - int(windowed.negative.item()), 100)))
    assert statistics.view("decayed").negative.item() == pytest.approx(2.0)
    assert statistics.view("decayed").ratio.item() == pytest.approx(98.0)
    with pytest.raises(ValueError, match="view must be one of"):
        statistics.view("all")


def test_before_a_window_is_full_it_has_everything():
    statistics = WatchedStatistics(1, window=1000, decay_half_life=1.0)
    for _ in range(130):
        statistics.update(torch.ones(1), torch.ones(1))
    assert statistics.view("windowed").positive.item() == 130
    statistics.reset()
    assert statistics.updates == 0
    assert statistics.view("decayed").positive.item() == 0


def test_a_window_must_have_an_update():
    with pytest.raises(ValueError, match="above 0"):
        WatchedStatistics(1, window=0, decay_half_life=1.0)
