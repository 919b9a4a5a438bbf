"""The paper's four losses as a user meets them."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

import equigrad
from equigrad import (
    BACKGROUND,
    IGNORE,
    EqualizedFocalLoss,
    EqualizedQualityFocalLoss,
    SigmoidEqualizationLoss,
    SoftmaxEqualizationLoss,
)
from equigrad.losses import reference
from losses.gradients import gradient_sums, one_hot

LOSSES = [SigmoidEqualizationLoss, SoftmaxEqualizationLoss, EqualizedFocalLoss, EqualizedQualityFocalLoss]
SIGMOID_LOSSES = [SigmoidEqualizationLoss, EqualizedFocalLoss, EqualizedQualityFocalLoss]


class Sample:
    """A batch that every loss takes."""

    def __init__(self, num_samples=12, num_classes=4, seed=0):
        generator = torch.Generator().manual_seed(seed)
        self.logits = torch.randn(num_samples, num_classes, generator=generator, dtype=torch.float64).requires_grad_()
        self.labels = torch.randint(num_classes, (num_samples,), generator=generator)
        self.quality = torch.rand(num_samples, generator=generator, dtype=torch.float64)

    def loss(self, criterion, **options):
        extra = [self.quality] if isinstance(criterion, EqualizedQualityFocalLoss) else []
        return criterion(self.logits, self.labels, *extra, **options)


def in_mid_training(criterion):
    """Head balanced, tail starved of positive gradient."""
    criterion.statistics.positive.copy_(torch.tensor([100.0, 50.0, 5.0, 0.0]))
    criterion.statistics.negative.fill_(100.0)
    return criterion


def plain_loss(criterion, sample):
    """The loss by the paper's formula, summed, at the weights the criterion now has."""
    if isinstance(criterion, SoftmaxEqualizationLoss):
        return reference.softmax_equalization(sample.logits, sample.labels, criterion.category_weights()).sum()
    first, second = criterion.category_weights()
    if isinstance(criterion, SigmoidEqualizationLoss):
        return reference.sigmoid_equalization(sample.logits, sample.labels, first, second).sum()
    if isinstance(criterion, EqualizedFocalLoss):
        return reference.equalized_focal(sample.logits, sample.labels, first, second).sum()
    return reference.equalized_quality_focal(sample.logits, sample.labels, sample.quality, first, second).sum()


# ---- values worked out by hand


def test_sigmoid_eql_weighs_by_the_mapped_ratio():
    criterion = in_mid_training(SigmoidEqualizationLoss(4))
    positive, negative = criterion.category_weights()
    # ratios 1, 0.5, 0.05, 0: 1 / (1 + exp(-12 (G - 0.8)))
    assert_close(
        negative, torch.tensor([0.9168, 0.026597, 0.0001234, 0.0000677], dtype=torch.float64), rtol=1e-3, atol=0
    )
    assert_close(positive, 1 + 4 * (1 - negative))


def test_sigmoid_eql_of_one_sample_by_hand():
    criterion = SigmoidEqualizationLoss(2, mapping="linear", positive_boost=4.0)
    criterion.statistics.positive.copy_(torch.tensor([50.0, 100.0]))
    criterion.statistics.negative.fill_(100.0)
    # category 0: r = 0.5, q = 3; category 1: r = 1, q = 1; z = 0 is p = 0.5, cost ln 2
    loss = criterion(torch.zeros(1, 2, dtype=torch.float64, requires_grad=True), torch.tensor([0]))
    assert_close(loss.item(), (3 + 1) * 0.6931471805599453)
    assert_close(criterion.statistics.positive.tolist(), [50 + 3 * 0.5, 100.0])
    assert_close(criterion.statistics.negative.tolist(), [100.0, 100 + 1 * 0.5])


def test_softmax_eql_of_one_sample_by_hand():
    criterion = SoftmaxEqualizationLoss(2)
    criterion.statistics.positive.copy_(torch.tensor([3.0, 1.0]))
    loss = criterion(torch.zeros(1, 2, dtype=torch.float64, requires_grad=True), torch.tensor([1]))
    # p_1 = 1 / (3 + 1)
    assert_close(loss.item(), 1.3862943611198906)
    assert_close(criterion.statistics.positive.tolist(), [3.0, 1 + 0.75])
    assert_close(criterion.statistics.negative.tolist(), [0.75, 0.0])


def test_efl_of_one_sample_by_hand():
    criterion = EqualizedFocalLoss(1, focus_scale=4.0)
    criterion.statistics.positive.fill_(1.0)
    criterion.statistics.negative.fill_(2.0)
    focus, weight = criterion.category_weights()
    assert (focus.item(), weight.item()) == (4.0, 2.0)  # 2 + 4 (1 - 0.5), 4 / 2
    loss = criterion(torch.zeros(1, 1, dtype=torch.float64, requires_grad=True), torch.tensor([0]))
    assert_close(loss.item(), 0.25 * 2 * 0.5**4 * 0.6931471805599453)


def test_eqfl_of_one_sample_by_hand():
    criterion = EqualizedQualityFocalLoss(1, focus_scale=4.0)
    criterion.statistics.positive.fill_(1.0)
    criterion.statistics.negative.fill_(2.0)
    quality = torch.tensor([0.75], dtype=torch.float64)
    loss = criterion(torch.zeros(1, 1, dtype=torch.float64, requires_grad=True), torch.tensor([0]), quality)
    assert_close(loss.item(), 2 * 0.25**4 * 0.6931471805599453)


# ---- the contract


@pytest.mark.parametrize("loss_class", LOSSES)
def test_records_the_gradient_autograd_computes_for_the_value_it_returns(loss_class):
    criterion, sample = in_mid_training(loss_class(4)), Sample()
    before = copy.deepcopy(criterion.statistics)
    expected = plain_loss(criterion, sample) / len(sample.labels)
    (gradient,) = torch.autograd.grad(expected, sample.logits)
    loss = sample.loss(criterion)
    positive, negative = gradient_sums(gradient, sample.labels)
    assert_close(loss, expected)
    assert_close(torch.autograd.grad(loss, sample.logits)[0], gradient)
    assert_close(criterion.statistics.positive - before.positive, positive)
    assert_close(criterion.statistics.negative - before.negative, negative)


@pytest.mark.parametrize("loss_class", LOSSES)
def test_the_weights_of_a_batch_come_from_earlier_batches_only(loss_class):
    criterion, sample = loss_class(4), Sample()
    first = sample.loss(criterion)
    fresh = sample.loss(loss_class(4).eval())
    assert_close(first, fresh)
    assert not torch.equal(sample.loss(criterion), first)


def test_the_first_step_is_the_plain_loss():
    sample = Sample()
    z, y, count = sample.logits, sample.labels, len(sample.labels)
    bce = F.binary_cross_entropy_with_logits(z, one_hot(y, 4), reduction="sum") / count
    assert_close(sample.loss(SigmoidEqualizationLoss(4)), bce)
    assert_close(sample.loss(SoftmaxEqualizationLoss(4)), F.cross_entropy(z, y))
    assert_close(sample.loss(EqualizedFocalLoss(4)), reference.focal(z, y).mean())
    assert_close(sample.loss(EqualizedQualityFocalLoss(4)), reference.quality_focal(z, y, sample.quality).mean())


@pytest.mark.parametrize("indicator", ["positive", "negative", "ratio"])
def test_every_indicator_starts_as_cross_entropy(indicator):
    sample = Sample()
    loss = sample.loss(SoftmaxEqualizationLoss(4, indicator=indicator))
    assert_close(loss, F.cross_entropy(sample.logits, sample.labels))


@pytest.mark.parametrize("loss_class", LOSSES)
@pytest.mark.parametrize("mode", ["eval", "no_grad"])
def test_evaluation_leaves_the_statistics_alone(loss_class, mode):
    criterion, sample = in_mid_training(loss_class(4)), Sample()
    before = copy.deepcopy(criterion.state_dict())
    criterion.train(mode != "eval")
    with torch.set_grad_enabled(mode != "no_grad"):
        sample.loss(criterion)
    assert_close(criterion.state_dict(), before, rtol=0, atol=0)


@pytest.mark.parametrize("loss_class", LOSSES)
def test_a_state_dict_carries_the_statistics(loss_class):
    trained, sample = loss_class(4), Sample()
    sample.loss(trained)
    assert list(trained.state_dict()) == ["statistics.positive", "statistics.negative", "statistics.skipped"]
    resumed = loss_class(4)
    resumed.load_state_dict(trained.state_dict())
    assert torch.equal(sample.loss(resumed), sample.loss(trained))


@pytest.mark.parametrize("loss_class", LOSSES)
def test_a_loss_survives_deepcopy_and_pickle(loss_class):
    criterion, sample = in_mid_training(loss_class(4)), Sample()
    expected = sample.loss(copy.deepcopy(criterion))
    assert torch.equal(sample.loss(pickle.loads(pickle.dumps(criterion))), expected)


@pytest.mark.parametrize("loss_class", LOSSES)
def test_an_ignored_row_is_as_good_as_absent(loss_class):
    criterion, sample = in_mid_training(loss_class(4)), Sample()
    without = copy.deepcopy(criterion)
    sample.labels[::3] = IGNORE
    loss = sample.loss(criterion)
    kept = sample.labels != IGNORE
    sample.logits, sample.labels, sample.quality = sample.logits[kept], sample.labels[kept], sample.quality[kept]
    assert_close(loss, sample.loss(without))
    assert_close(criterion.state_dict(), without.state_dict())


@pytest.mark.parametrize("loss_class", SIGMOID_LOSSES)
def test_background_is_a_negative_of_every_category(loss_class):
    criterion, sample = loss_class(4), Sample(num_samples=3)
    sample.labels.fill_(BACKGROUND)
    sample.loss(criterion)
    assert criterion.statistics.positive.sum() == 0
    assert (criterion.statistics.negative > 0).all()


@pytest.mark.parametrize("loss_class", LOSSES)
def test_the_normalizer_replaces_the_number_of_samples(loss_class):
    sample = Sample()
    summed = sample.loss(in_mid_training(loss_class(4, reduction="sum")))
    criterion = in_mid_training(loss_class(4))
    negative = criterion.statistics.negative.clone()
    assert_close(sample.loss(criterion, normalizer=5.0), summed / 5)
    by_tensor = in_mid_training(loss_class(4))
    assert_close(sample.loss(by_tensor, normalizer=torch.tensor(5)), summed / 5)
    assert_close(by_tensor.statistics.negative - negative, criterion.statistics.negative - negative)


@pytest.mark.parametrize("loss_class", LOSSES)
def test_a_loss_scale_stays_out_of_the_statistics(loss_class):
    plain_run, scaled_run, sample = loss_class(4), loss_class(4), Sample()
    sample.loss(plain_run).backward()
    (65536 * sample.loss(scaled_run)).backward()
    assert_close(scaled_run.state_dict(), plain_run.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("loss_class", LOSSES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_computes_the_loss_in_float32(loss_class, dtype):
    criterion = loss_class(4)
    layer, sample = nn.Linear(6, 4), Sample()
    with torch.autocast("cpu", dtype=dtype):
        sample.logits = layer(torch.randn(12, 6))
        assert sample.logits.dtype == dtype
        loss = sample.loss(criterion)
    loss.backward()
    reference = loss_class(4)
    sample.logits = sample.logits.detach().float().requires_grad_()
    assert_close(loss, sample.loss(reference))
    assert_close(criterion.state_dict(), reference.state_dict(), rtol=1e-5, atol=1e-7)
    assert layer.weight.grad.isfinite().all()


@pytest.mark.parametrize("loss_class", LOSSES)
def test_a_model_cast_to_half_keeps_exact_statistics(loss_class):
    model = nn.Sequential(nn.Linear(3, 4), in_mid_training(loss_class(4)))
    model[1].statistics.positive.fill_(1e6 + 1 / 3)
    for cast in (model.half, model.bfloat16, model.float, lambda: model.to(torch.float16)):
        cast()
        assert model[1].statistics.positive.dtype == torch.float64
        assert model[1].statistics.positive[0] == 1e6 + 1 / 3
    assert model[0].weight.dtype == torch.float16


@pytest.mark.slow
def test_a_compiled_model_gives_the_same_numbers():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(1)
            self.layer = nn.Linear(5, 4)
            self.criteria = nn.ModuleList(
                [SigmoidEqualizationLoss(4), SoftmaxEqualizationLoss(4), EqualizedFocalLoss(4)]
            )

        def forward(self, features, labels):
            logits = self.layer(features).relu()
            return sum(criterion(logits, labels) for criterion in self.criteria)

    eager, compiled = Model(), Model()
    step = torch.compile(compiled, backend="aot_eager")
    for seed in range(3):
        torch.manual_seed(seed)
        features, labels = torch.randn(8 + seed, 5), torch.randint(4, (8 + seed,))
        expected, loss = eager(features, labels), step(features, labels)
        expected.backward()
        loss.backward()
        assert_close(loss, expected)
    assert_close(compiled.layer.weight.grad, eager.layer.weight.grad)
    assert_close(compiled.state_dict(), eager.state_dict())


@pytest.mark.slow
def test_a_compiled_model_is_not_compiled_again_in_every_step():
    criterion = torch.compile(nn.Sequential(nn.ReLU(), OfLabels(SigmoidEqualizationLoss(4))), backend="aot_eager")
    torch._dynamo.utils.counters.clear()
    for _ in range(12):
        criterion(torch.randn(6, 4, requires_grad=True)).backward()
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 4


class OfLabels(nn.Module):
    def __init__(self, criterion):
        super().__init__()
        self.criterion = criterion

    def forward(self, logits):
        return self.criterion(logits, torch.tensor([0, 1, 2, 3, 0, 0])) * 2


# ---- switches of the ablations


def test_only_positive_or_only_negative_re_weighting():
    positive, negative = in_mid_training(SigmoidEqualizationLoss(4)).category_weights()
    ones = torch.ones(4, dtype=torch.float64)
    only_positive = in_mid_training(SigmoidEqualizationLoss(4, reweight_negative=False)).category_weights()
    only_negative = in_mid_training(SigmoidEqualizationLoss(4, reweight_positive=False)).category_weights()
    assert_close(only_positive, (positive, ones))
    assert_close(only_negative, (ones, negative))


def test_without_any_re_weighting_sigmoid_eql_is_bce_at_every_step():
    sample = Sample()
    criterion = in_mid_training(SigmoidEqualizationLoss(4, reweight_positive=False, reweight_negative=False))
    expected = F.binary_cross_entropy_with_logits(sample.logits, one_hot(sample.labels, 4), reduction="sum") / 12
    assert_close(sample.loss(criterion), expected)


def test_focusing_and_weighting_factors_switch_apart():
    focus, weight = in_mid_training(EqualizedFocalLoss(4)).category_weights()
    assert_close(focus, torch.tensor([2.0, 6.0, 9.6, 10.0], dtype=torch.float64))
    assert_close(weight, focus / 2)
    base, ones = torch.full_like(focus, 2.0), torch.ones_like(focus)
    assert_close(in_mid_training(EqualizedFocalLoss(4, focusing=False)).category_weights(), (base, weight))
    assert_close(in_mid_training(EqualizedFocalLoss(4, weighting=False)).category_weights(), (focus, ones))


def test_positive_balance_none_switches_alpha_off():
    sample = Sample()
    expected = reference.focal(sample.logits, sample.labels, positive_balance=None).mean()
    assert_close(sample.loss(EqualizedFocalLoss(4, positive_balance=None)), expected)


def test_a_ratio_above_one_counts_as_balanced():
    criterion = EqualizedFocalLoss(2)
    criterion.statistics.positive.fill_(5.0)
    criterion.statistics.negative.fill_(1.0)
    focus, weight = criterion.category_weights()
    assert_close(focus, torch.full((2,), 2.0, dtype=torch.float64))
    assert_close(weight, torch.ones(2, dtype=torch.float64))


def test_indicators_name_what_stands_for_the_prior():
    for indicator, expected in (
        ("positive", [100.0, 50.0, 5.0, 1e-4]),
        ("negative", [100.0] * 4),
        ("ratio", [1.0, 0.5, 0.05, 1e-4]),
    ):
        criterion = in_mid_training(SoftmaxEqualizationLoss(4, indicator=indicator, prior_power=2.0))
        assert_close(criterion.category_weights(), 2 * torch.tensor(expected, dtype=torch.float64).log())


# ---- errors


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: SigmoidEqualizationLoss(0), "num_classes must be at least 1, got 0"),
        (lambda: SigmoidEqualizationLoss(3, positive_boost=-1.0), "positive_boost must be finite and >= 0, got -1.0"),
        (lambda: SigmoidEqualizationLoss(3, steepness=float("nan")), "steepness must be finite"),
        (lambda: SigmoidEqualizationLoss(3, mapping="cubic"), "mapping must be one of .*got 'cubic'"),
        (
            lambda: SigmoidEqualizationLoss(3, reduction="average"),
            r"reduction must be one of \['mean', 'sum', 'none'\], got 'average'",
        ),
        (lambda: SoftmaxEqualizationLoss(3, prior_floor=0.0), "prior_floor must be finite and > 0"),
        (lambda: SoftmaxEqualizationLoss(3, prior_power=float("inf")), "prior_power must be finite"),
        (lambda: SoftmaxEqualizationLoss(3, indicator="count"), "indicator must be one of"),
        (lambda: EqualizedFocalLoss(3, base_focus=0.0), "base_focus must be finite and > 0"),
        (lambda: EqualizedFocalLoss(3, positive_balance=1.5), r"positive_balance must be within \[0, 1\]"),
        (lambda: EqualizedQualityFocalLoss(3, focus_scale=-8.0), "focus_scale must be finite and >= 0"),
    ],
)
def test_a_bad_hyper_parameter_is_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize("build", [lambda: EqualizedFocalLoss("9"), lambda: EqualizedFocalLoss(3, base_focus="2")])
def test_a_hyper_parameter_of_the_wrong_type_is_a_type_error(build):
    with pytest.raises(TypeError, match="must be"):
        build()


LOGITS = torch.zeros(2, 3)


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        (torch.zeros(2, 5), torch.tensor([0, 1]), r"logits must be \(N, 3\) .* got \(2, 5\)"),
        (torch.zeros(3), torch.tensor([0]), r"logits must be \(N, 3\) .* got \(3,\)"),
        (torch.zeros(2, 3, dtype=torch.int64), torch.tensor([0, 1]), "logits must be floating point, got torch.int64"),
        (LOGITS, torch.tensor([0, 1, 2]), r"labels must be int64 of shape \(2,\).*got torch.int64 of shape \(3,\)"),
        (LOGITS, torch.tensor([0, 1], dtype=torch.int32), r"labels must be int64 .* got torch.int32 of shape \(2,\)"),
        (LOGITS, torch.tensor([0.0, 1.0]), "labels must be int64 .* got torch.float32"),
        (LOGITS, torch.tensor([0, 3]), r"labels must be 0 ... 2.*got 3 at flat index 1"),
        (LOGITS, torch.tensor([-7, 0]), r"labels must be 0 ... 2.*got -7 at flat index 0"),
        (LOGITS, torch.zeros(2, device="meta", dtype=torch.int64), "labels must be on the device of the logits, cpu"),
    ],
)
@pytest.mark.parametrize("loss_class", LOSSES)
def test_a_bad_batch_is_named(loss_class, logits, labels, message):
    quality = [torch.zeros(2)] if loss_class is EqualizedQualityFocalLoss else []
    with pytest.raises(ValueError, match=message):
        loss_class(3)(logits, labels, *quality)


def test_a_softmax_loss_refuses_background_and_says_what_to_do():
    with pytest.raises(ValueError, match="no background, wrap it in WithObjectness"):
        SoftmaxEqualizationLoss(3)(LOGITS, torch.tensor([0, BACKGROUND]))


def test_a_loss_left_on_another_device_is_named():
    criterion = SigmoidEqualizationLoss(3).to("meta")
    with pytest.raises(ValueError, match="logits are on cpu but the loss is on meta"):
        criterion(LOGITS, torch.tensor([0, 1]))


@pytest.mark.parametrize("normalizer", [0.0, -1.0, float("nan"), torch.tensor(0.0), torch.tensor([1.0, 2.0])])
def test_a_bad_normalizer_is_refused(normalizer):
    with pytest.raises(ValueError, match="normalizer must be"):
        SigmoidEqualizationLoss(3)(LOGITS, torch.tensor([0, 1]), normalizer=normalizer)


def test_multi_label_targets_of_a_focal_loss_other_than_0_and_1_are_refused():
    with pytest.raises(ValueError, match=r"multi-label targets must be 0 or 1; got 0\.5"):
        EqualizedFocalLoss(3)(LOGITS, torch.tensor([[0.0, 1.0, 0.5], [0.0, 0.0, 0.0]]))


@pytest.mark.parametrize(
    ("quality", "message"),
    [
        (torch.tensor([0.5, 1.5]), r"quality must be within \[0, 1\]; got 1.5"),
        (torch.tensor([0.5, torch.nan]), r"quality must be within \[0, 1\]; got nan"),
        (torch.tensor([0.5]), r"quality must be floating point of shape \(2,\)"),
        (torch.tensor([0, 1]), "quality must be floating point"),
    ],
)
def test_a_bad_quality_is_named(quality, message):
    with pytest.raises(ValueError, match=message):
        EqualizedQualityFocalLoss(3)(LOGITS, torch.tensor([0, 1]), quality)


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("loss", [EqualizedQualityFocalLoss(3), equigrad.QualityFocalLoss()])
def test_a_quality_loss_without_a_quality_is_refused(loss, reduction):
    loss.reduction = reduction
    with pytest.raises(TypeError, match="quality must be a Tensor, got NoneType"):
        loss(LOGITS, torch.tensor([0, 1]), None)


@pytest.mark.parametrize("arguments", [([[0.0]], torch.tensor([0])), (torch.zeros(1, 3), [0])])
def test_what_is_no_tensor_is_a_type_error(arguments):
    with pytest.raises(TypeError, match="must be a Tensor"):
        SigmoidEqualizationLoss(3)(*arguments)


def test_a_refused_batch_leaves_the_statistics_alone():
    criterion = in_mid_training(SigmoidEqualizationLoss(4))
    before = copy.deepcopy(criterion.state_dict())
    with pytest.raises(ValueError, match="labels"):
        criterion(torch.zeros(2, 4, requires_grad=True), torch.tensor([0, 9]))
    assert_close(criterion.state_dict(), before, rtol=0, atol=0)


def test_printing_a_loss_shows_its_hyper_parameters():
    text = repr(EqualizedFocalLoss(7, focus_scale=4.0))
    assert "focus_scale=4.0" in text
    assert "num_classes=7" in text
