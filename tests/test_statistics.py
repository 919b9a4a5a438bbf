import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel
from torch.testing import assert_close

from equigrad import (
    BalancedSoftmaxLoss,
    EqualizedFocalLoss,
    EqualizedVarifocalLoss,
    GradientStatistics,
    SigmoidEqualizationLoss,
    SoftmaxEqualizationLoss,
    copy_statistics,
    one_batch,
)
from equigrad.statistics import find_statistics
from losses.gradients import gradient_sums


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


def test_statistics_are_found_wherever_they_are():
    criterion = SigmoidEqualizationLoss(3)
    model = nn.ModuleDict({"head": nn.ModuleDict({"criterion": criterion}), "body": nn.Linear(1, 1)})
    assert find_statistics(model) == {"head.criterion.statistics": criterion.statistics}


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


@pytest.mark.parametrize("form", [float, int, torch.tensor])
def test_denoising_queries_have_a_normalizer_of_their_own_in_the_same_batch(form):
    """RT-DETR: each decoder layer divides by 6 objects, and its denoising queries by 18."""
    loss = EqualizedVarifocalLoss(4, constant_weight=True)
    calls = [(logits, labels, form(number)) for (logits, labels), number in zip(batches(), (6, 18), strict=False)]
    with one_batch(loss):
        total = sum(
            loss(logits, labels, torch.full(labels.shape, 0.5), normalizer=number) for logits, labels, number in calls
        )
    gradients = torch.autograd.grad(total, [logits for logits, _, _ in calls])
    expected = [gradient_sums(gradient, labels) for gradient, (_, labels, _) in zip(gradients, calls, strict=True)]
    assert_close(loss.statistics.positive, sum(positive for positive, _ in expected))
    assert_close(loss.statistics.negative, sum(negative for _, negative in expected))


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


# ---- batches that are not finite


@pytest.mark.parametrize("value", [torch.inf, torch.nan])
@pytest.mark.parametrize("half_life", [None, 2.0])
def test_a_batch_that_is_not_finite_is_left_out_and_counted(value, half_life):
    statistics, untouched = GradientStatistics(2, half_life), GradientStatistics(2, half_life)
    for either in (statistics, untouched):
        either.update(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), 2.0)
    statistics.update(torch.tensor([1.0, value]), torch.ones(2), 2.0)
    statistics.update(torch.ones(2), torch.tensor([value, 0.0]))
    assert statistics.skipped == 2
    assert untouched.skipped == 0
    for either in (statistics, untouched):  # and later batches go on as if it had not been
        either.update(torch.ones(2), torch.ones(2))
    assert torch.equal(statistics.positive, untouched.positive)
    assert torch.equal(statistics.negative, untouched.negative)


def test_the_sums_stay_finite_whatever_comes():
    statistics = GradientStatistics(1)
    for _ in range(3):
        statistics.update(torch.tensor([1e308], dtype=torch.float64), torch.zeros(1))
    assert statistics.positive.item() == 1e308
    assert statistics.skipped == 2


def test_a_call_that_is_not_finite_leaves_out_the_whole_batch_it_is_part_of():
    statistics = GradientStatistics(1)
    with one_batch(statistics):
        statistics.update(torch.ones(1), torch.ones(1))
        statistics.update(torch.full((1,), torch.nan), torch.ones(1))
    assert statistics.positive.item() == statistics.negative.item() == 0
    assert statistics.skipped == 1


@pytest.mark.parametrize("logit", [torch.inf, -torch.inf, torch.nan])
@pytest.mark.parametrize("loss_class", [SigmoidEqualizationLoss, SoftmaxEqualizationLoss, EqualizedFocalLoss])
def test_training_goes_on_as_before_after_a_logit_that_is_not_finite(loss_class, logit):
    torch.manual_seed(0)
    broken, healthy = loss_class(4), loss_class(4)
    logits, labels = torch.randn(6, 4, requires_grad=True), torch.tensor([0, 0, 0, 1, 2, 3])
    for loss in (broken, healthy):
        loss(logits, labels)
    with torch.no_grad():
        bad = logits.clone()
        bad[:, 0] = logit
    broken(bad.requires_grad_(), labels)
    if broken.statistics.skipped == 0:  # an infinite logit may have a finite gradient
        healthy(bad, labels)
    assert_close(broken(logits, labels), healthy(logits, labels), rtol=0, atol=0)
    assert broken.statistics.positive.isfinite().all()
    assert broken.statistics.negative.isfinite().all()
    if math.isnan(logit) or (loss_class is SoftmaxEqualizationLoss and logit == torch.inf):
        assert broken.statistics.skipped == 1


def test_skipped_batches_are_saved_and_reset():
    statistics, resumed = GradientStatistics(1), GradientStatistics(1)
    statistics.update(torch.full((1,), torch.nan), torch.ones(1))
    resumed.load_state_dict(statistics.state_dict())
    assert resumed.skipped == 1
    resumed.reset()
    assert resumed.skipped == 0


def test_a_checkpoint_from_before_batches_were_counted_loads():
    statistics = GradientStatistics(2)
    statistics.update(torch.full((2,), torch.nan), torch.ones(2))
    old = {"positive": torch.tensor([1.0, 2.0]).double(), "negative": torch.tensor([3.0, 4.0]).double()}
    statistics.load_state_dict(old)
    assert statistics.positive.tolist() == [1.0, 2.0]
    assert statistics.skipped == 0
    assert list(old) == ["positive", "negative"]
    with pytest.raises(RuntimeError, match="negative"):
        statistics.load_state_dict({"positive": old["positive"]})


# ---- threads and micro-batches


def test_threads_lose_no_batch():
    statistics = GradientStatistics(1000)
    ones = torch.ones(1000)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: statistics.update(ones, ones), range(400)))
        assert statistics.positive.eq(400).all()
        with one_batch(statistics):
            list(pool.map(lambda _: statistics.update(ones, ones, 4.0), range(400)))
    assert statistics.positive.eq(500).all()


@pytest.mark.parametrize("loss_class", [SigmoidEqualizationLoss, SoftmaxEqualizationLoss, EqualizedFocalLoss])
def test_the_mean_of_equal_micro_batches_is_recorded_like_the_joined_batch(loss_class):
    torch.manual_seed(0)
    joined, in_parts = loss_class(4).double(), loss_class(4).double()
    for _ in range(3):
        logits, labels = torch.randn(12, 4, dtype=torch.float64, requires_grad=True), torch.randint(4, (12,))
        expected = joined(logits, labels)
        with one_batch(in_parts, micro_batches=3):
            parts = [in_parts(*part) / 3 for part in zip(logits.chunk(3), labels.chunk(3), strict=True)]
        assert_close(sum(parts), expected)
    assert_close(in_parts.state_dict(), joined.state_dict(), rtol=1e-12, atol=0)


def test_micro_batches_of_unequal_size_share_a_normalizer():
    torch.manual_seed(0)
    joined, in_parts = SigmoidEqualizationLoss(4), SigmoidEqualizationLoss(4)
    for _ in range(3):
        logits, labels = torch.randn(12, 4, dtype=torch.float64, requires_grad=True), torch.randint(4, (12,))
        labels[:3] = -100
        expected = joined(logits, labels)
        with one_batch(in_parts):
            cuts = ([0, 5], [5, 6], [6, 12])
            parts = [in_parts(logits[a:b], labels[a:b], normalizer=joined.num_counted(labels)) for a, b in cuts]
        assert_close(sum(parts), expected)
    assert_close(in_parts.state_dict(), joined.state_dict(), rtol=1e-12, atol=0)


def test_a_block_inside_a_model_joins_the_block_around_it():
    joined, apart = GradientStatistics(1, half_life=1.0), GradientStatistics(1, half_life=1.0)
    for statistics, outer in ((joined, one_batch(joined, micro_batches=2)), (apart, nullcontext())):
        with outer:
            for _ in range(2):
                with one_batch(statistics, divisor=4.0, joins=True):
                    statistics.update(torch.ones(1), torch.ones(1))
                    statistics.update(torch.ones(1), torch.ones(1))
    assert joined.positive.item() == (2 / 4 + 2 / 4) / 2
    assert apart.positive.item() == 0.5 / 2 + 0.5  # two batches: the first one counts half
    with one_batch(joined), pytest.raises(RuntimeError, match="nested"), one_batch(joined):
        pass


def test_an_inner_block_that_fails_adds_nothing_to_the_block_around_it():
    statistics = GradientStatistics(1)
    with one_batch(statistics):
        with suppress(ValueError), one_batch(statistics, joins=True):
            statistics.update(torch.ones(1), torch.ones(1))
            raise ValueError
        statistics.update(torch.ones(1), torch.ones(1))
    assert statistics.positive.item() == 1


# ---- the meta device


def test_statistics_of_a_model_built_on_the_meta_device_start_at_zero():
    with torch.device("meta"):
        loss = SigmoidEqualizationLoss(1000)
    for _ in range(3):  # memory that was used before is as a rule not zero
        torch.full((1000,), 7.0, dtype=torch.float64)
    loss.to_empty(device="cpu")
    assert loss.statistics.positive.eq(0).all()
    assert loss.statistics.skipped == 0
    assert loss.statistics.positive.dtype == torch.float64
    assert loss(torch.zeros(1, 1000, requires_grad=True), torch.tensor([3])).isfinite()


def test_counts_of_a_loss_survive_being_built_on_the_meta_device():
    expected = BalancedSoftmaxLoss([10, 5, 1])
    with torch.device("meta"):
        loss = BalancedSoftmaxLoss([10, 5, 1])
    loss.to_empty(device="cpu")
    logits, labels = torch.randn(4, 3), torch.tensor([0, 1, 2, 2])
    assert_close(loss(logits, labels), expected(logits, labels))


def test_counts_that_were_lost_on_the_meta_device_are_an_error():
    with pytest.raises(RuntimeError, match=r"BalancedSoftmaxLoss\.margin was lost on the meta device: build"):
        BalancedSoftmaxLoss([10, 5, 1]).to("meta").to_empty(device="cpu")


# ---- averaged models


def test_an_averaged_model_takes_the_statistics_of_the_model():
    model = nn.Sequential(nn.Linear(4, 4), SigmoidEqualizationLoss(4))
    averaged = AveragedModel(model, use_buffers=True)
    for _ in range(3):
        model[1](model[0](torch.randn(5, 4)), torch.tensor([0, 0, 1, 2, 3]))
        averaged.update_parameters(model)
    assert not torch.equal(averaged.module[1].statistics.positive, model[1].statistics.positive)  # a mean of sums
    copy_statistics(model, averaged)
    assert_close(averaged.module[1].state_dict(), model[1].state_dict(), rtol=0, atol=0)
    model[1].statistics.reset()  # a copy, not the same memory
    assert averaged.module[1].statistics.positive.sum() > 0


def test_statistics_are_not_copied_to_a_model_of_another_kind():
    with pytest.raises(ValueError, match=r"must have the same statistics, got those of \[4\] and of \[5\] categories"):
        copy_statistics(SigmoidEqualizationLoss(4), SigmoidEqualizationLoss(5))
