import pytest
import torch
from torch.testing import assert_close

from equigrad import GradientStatistics


def test_starts_with_an_infinite_ratio():
    statistics = GradientStatistics(3)
    assert statistics.num_classes == 3
    assert_close(statistics.ratio, torch.full((3,), torch.inf, dtype=torch.float64))


def test_adds_the_sums_divided_by_what_the_loss_divides_by():
    statistics = GradientStatistics(2)
    statistics.update(torch.tensor([4.0, 2.0]), torch.tensor([8.0, 0.0]), 4)
    statistics.update(torch.tensor([1.0, 1.0]), torch.tensor([1.0, 0.0]))
    assert_close(statistics.positive.tolist(), [2.0, 1.5])
    assert_close(statistics.negative.tolist(), [3.0, 0.0])
    assert_close(statistics.ratio.tolist(), [2 / 3, torch.inf])


def test_a_batch_without_samples_adds_nothing():
    statistics = GradientStatistics(2)
    statistics.update(torch.zeros(2), torch.zeros(2), torch.tensor(0.0))
    assert statistics.positive.tolist() == statistics.negative.tolist() == [0.0, 0.0]


def test_small_increments_are_never_lost():
    statistics = GradientStatistics(1)
    statistics.positive.fill_(2.0**24)
    for _ in range(1000):
        statistics.update(torch.tensor([0.25]), torch.tensor([0.0]))
    assert statistics.positive.item() == 2.0**24 + 250


def test_reset_forgets_everything():
    statistics = GradientStatistics(1)
    statistics.update(torch.ones(1), torch.ones(1))
    statistics.reset()
    assert statistics.positive.item() == statistics.negative.item() == 0


def test_updates_leave_no_graph():
    statistics = GradientStatistics(1)
    statistics.update(torch.ones(1, requires_grad=True), torch.ones(1))
    assert not statistics.positive.requires_grad


def test_stays_float64_on_the_way_through_the_meta_device():
    statistics = GradientStatistics(2).to("meta").to_empty(device="cpu")
    assert statistics.positive.dtype == torch.float64
    assert statistics.positive.device.type == "cpu"


def test_sums_of_the_wrong_length_are_named():
    with pytest.raises(ValueError, match=r"negative must be \(3,\), got \(2,\)"):
        GradientStatistics(3).update(torch.zeros(3), torch.zeros(2))


@pytest.mark.parametrize(("num_classes", "error"), [(0, ValueError), (2.0, TypeError), (True, TypeError)])
def test_a_bad_number_of_classes_is_refused(num_classes, error):
    with pytest.raises(error, match="num_classes must be"):
        GradientStatistics(num_classes)
