import pytest
import torch
from torch.testing import assert_close

from equigrad import EqualizedFocalLoss, GradientStatistics, SigmoidEqualizationLoss, SoftmaxEqualizationLoss, one_batch


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


def test_calls_within_one_batch_are_those_of_the_joined_batch():
    torch.manual_seed(0)
    logits, labels = torch.randn(7, 5, dtype=torch.float64), torch.randint(-1, 5, (7,))
    whole, in_parts = EqualizedFocalLoss(5), EqualizedFocalLoss(5)
    for _ in range(2):  # the second step has weights from the first
        expected = whole(logits.requires_grad_(), labels, normalizer=3.0)
        with one_batch(in_parts):
            parts = [in_parts(logits[part], labels[part], normalizer=3.0) for part in (slice(3), slice(3, 7))]
        assert_close(sum(parts), expected)
    assert_close(in_parts.statistics.positive, whole.statistics.positive)
    assert_close(in_parts.statistics.negative, whole.statistics.negative)


def batches():
    """Levels of different sizes, some of their samples ignored."""
    generator = torch.Generator().manual_seed(1)
    for num_samples in (3, 8, 1):
        logits = torch.randn(num_samples, 4, generator=generator, dtype=torch.float64, requires_grad=True)
        labels = torch.randint(4, (num_samples,), generator=generator)
        labels[1::3] = -100
        yield logits, labels


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_each_call_of_one_batch_is_divided_by_its_own_divisor(reduction):
    loss = SigmoidEqualizationLoss(4, reduction=reduction)
    expected = torch.zeros(2, 4, dtype=torch.float64)
    with one_batch(loss):
        for logits, labels in batches():
            alone = SigmoidEqualizationLoss(4, reduction=reduction)
            alone(logits, labels)
            loss(logits, labels)
            expected += torch.stack([alone.statistics.positive, alone.statistics.negative])
    assert_close(torch.stack([loss.statistics.positive, loss.statistics.negative]), expected)


def test_calls_of_one_batch_may_mix_divisors_and_none():
    statistics = GradientStatistics(1)
    with one_batch(statistics):
        statistics.update(torch.ones(1), torch.ones(1), 4.0)
        statistics.update(torch.ones(1), torch.ones(1))
        statistics.update(torch.ones(1), torch.ones(1), torch.tensor(2.0))
    assert statistics.positive.item() == 0.25 + 1 + 0.5


def test_the_weights_rest_within_one_batch():
    loss = SoftmaxEqualizationLoss(4)
    with one_batch(loss):
        for logits, labels in batches():
            assert loss.category_weights().unique().numel() == 1
            loss(logits, labels)
    assert loss.category_weights().unique().numel() == 4


def test_one_batch_is_one_step_of_forgetting():
    statistics = GradientStatistics(1, half_life=1.0)
    statistics.positive.fill_(8.0)
    with one_batch(statistics):
        for _ in range(5):
            statistics.update(torch.ones(1), torch.ones(1), 1.0)
    assert statistics.positive.item() == 4.0 + 5.0


def test_one_batch_covers_every_loss_of_a_model_and_none_that_is_not_called():
    model = torch.nn.ModuleList([EqualizedFocalLoss(4), SoftmaxEqualizationLoss(4, half_life=1.0)])
    model[1].statistics.positive.fill_(8.0)
    with one_batch(model):
        for logits, labels in batches():
            model[0](logits, labels)
        assert model[0].statistics.negative.sum() == 0
    assert model[0].statistics.negative.sum() > 0
    assert model[1].statistics.positive.tolist() == [8.0] * 4  # no call, no step of forgetting


def test_a_divisor_of_the_whole_batch_replaces_those_of_the_calls():
    statistics = GradientStatistics(1)
    with one_batch(statistics, divisor=8):
        for _ in range(2):
            statistics.update(torch.ones(1), torch.ones(1), 1.0)
    assert statistics.positive.item() == 0.25


def test_one_batch_within_another_is_refused_and_the_outer_goes_on():
    loss = EqualizedFocalLoss(4)
    with one_batch(loss):
        with pytest.raises(RuntimeError, match="one_batch cannot be nested"), one_batch(torch.nn.ModuleList([loss])):
            pytest.fail("the inner block was entered")
        for logits, labels in batches():
            loss(logits, labels)
        assert loss.statistics.negative.sum() == 0
    assert loss.statistics.negative.sum() > 0


def test_one_batch_without_gradients_leaves_no_trace():
    loss = EqualizedFocalLoss(4)
    with one_batch(loss), torch.no_grad():
        for logits, labels in batches():
            loss(logits, labels)
    assert loss.statistics.negative.sum() == 0


def test_an_error_within_one_batch_leaves_the_statistics_as_they_were():
    loss = EqualizedFocalLoss(2)
    with pytest.raises(ValueError, match="labels"), one_batch(loss):
        [loss(torch.zeros(1, 2, requires_grad=True), torch.tensor([label])) for label in (0, 9)]
    assert loss.statistics.positive.sum() == 0
    loss(torch.zeros(1, 2, requires_grad=True), torch.tensor([0]))
    assert loss.statistics.positive.sum() > 0
