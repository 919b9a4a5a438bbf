"""The sigmoid losses that Sigmoid-EQL, EFL and EQFL are compared with."""

import copy
import math
import pickle

import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.testing import assert_close

from equigrad import (
    BACKGROUND,
    IGNORE,
    BinaryCrossEntropyLoss,
    EffectiveClassMarginLoss,
    EqualizedFocalLoss,
    EqualizedQualityFocalLoss,
    FederatedLoss,
    FocalEqualizationLoss,
    FocalLoss,
    GradientBlockingLoss,
    QualityFocalLoss,
    SigmoidEqualizationLoss,
    WithObjectness,
    effective_number_weights,
)
from equigrad.losses import reference
from losses.gradients import gradient_sums, one_hot, rows
from quick_processes import run_ranks

COUNTS = [100, 40, 8, 1]
FREQUENCY = [0.5, 0.1, 0.01, 0.001]

few_examples = settings(max_examples=10)  # a busy machine is no failure
seeds = st.integers(0, 2**16)


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def mid_training(criterion):
    """Head balanced, tail starved of positive gradient."""
    criterion.statistics.positive.copy_(tensor([100.0, 85.0, 75.0, 10.0]))
    criterion.statistics.negative.fill_(100.0)
    return criterion


def losses():
    """One of each, mid-training where that matters."""
    weights = effective_number_weights(COUNTS, 0.9)
    return {
        "bce": BinaryCrossEntropyLoss(),
        "weighted_bce": BinaryCrossEntropyLoss(weight=weights),
        "focal": FocalLoss(),
        "weighted_focal": FocalLoss(focus=1.5, positive_balance=None, weight=weights),
        "quality_focal": QualityFocalLoss(),
        "focal_eql": mid_training(FocalEqualizationLoss(4)),
        "gradient_blocking": GradientBlockingLoss(FREQUENCY, threshold=0.05),
        "federated": FederatedLoss(COUNTS, num_sampled=2),
        "effective_margin": EffectiveClassMarginLoss(COUNTS),
    }


LOSSES = list(losses())
all_losses = pytest.mark.parametrize("name", LOSSES)
sum_of_samples = [name for name in LOSSES if name != "federated"]


class Batch:
    """Logits, labels and, for a quality loss, qualities."""

    def __init__(self, *shape, num_classes=4, seed=0, dtype=torch.float64):
        shape = shape or (13,)
        generator = torch.Generator().manual_seed(seed)
        logits = 2 * torch.randn(shape[0], num_classes, *shape[1:], generator=generator, dtype=torch.float64)
        self.logits = logits.to(dtype).requires_grad_()
        self.labels = torch.randint(-1, num_classes, shape, generator=generator)
        self.labels.view(-1)[1::5] = IGNORE
        self.quality = torch.rand(shape, generator=generator, dtype=torch.float64)

    def loss(self, criterion, logits=None, **options):
        extra = [self.quality] if isinstance(criterion, QualityFocalLoss) else []
        return criterion(self.logits if logits is None else logits, self.labels, *extra, **options)

    def run(self, criterion, logits=None, **options):
        """Value and gradient."""
        logits = self.logits if logits is None else logits
        loss = self.loss(criterion, logits, **options)
        return loss.detach(), torch.autograd.grad(loss, logits)[0]


def formula(name, criterion, batch):
    """The loss of each sample by its plain formula."""
    arguments = (batch.logits, batch.labels)
    weight = effective_number_weights(COUNTS, 0.9)
    if name == "bce":
        return reference.binary_cross_entropy(*arguments)
    if name == "weighted_bce":
        return reference.binary_cross_entropy(*arguments, weight)
    if name == "focal":
        return reference.focal(*arguments)
    if name == "weighted_focal":
        return reference.focal(*arguments, 1.5, None, weight)
    if name == "quality_focal":
        return reference.quality_focal(*arguments, batch.quality)
    if name == "focal_eql":
        return reference.focal_equalization(*arguments, *criterion.category_weights())
    if name == "gradient_blocking":
        return reference.gradient_blocking(*arguments, tensor(FREQUENCY) < 0.05)
    assert name == "effective_margin"
    positive = tensor(COUNTS)
    return reference.effective_class_margin(*arguments, positive, positive.sum() * 7.3313 - positive)


@pytest.mark.parametrize("name", sum_of_samples)
@given(seed=seeds)
@few_examples
def test_value_and_gradient_are_those_of_the_plain_formula(name, seed):
    batch = Batch(seed=seed)
    criterion = losses()[name]
    expected = formula(name, criterion, batch).sum() / (batch.labels != IGNORE).sum()
    (expected_gradient,) = torch.autograd.grad(expected, batch.logits)
    loss, gradient = batch.run(criterion)
    assert_close(loss, expected.detach())
    assert_close(gradient, expected_gradient)


@pytest.mark.parametrize("name", ["bce", "weighted_bce", "focal", "weighted_focal", "focal_eql", "gradient_blocking"])
def test_one_hot_targets_equal_class_indices(name):
    batch = Batch()
    keep = batch.labels != IGNORE
    logits = batch.logits[keep].detach().requires_grad_()
    indices = losses()[name](logits, batch.labels[keep])
    targets = losses()[name](logits, one_hot(batch.labels[keep], 4))
    assert_close(targets, indices)
    assert_close(torch.autograd.grad(targets, logits), torch.autograd.grad(indices, logits))


# ---- published numbers


def focal_labels(labels):
    """Theirs: -1 ignored, 0 background, 1 ... C."""
    labels = torch.tensor(labels)
    return torch.where(labels == -1, IGNORE, labels - 1)


def assert_golden(loss, logits, step):
    (gradient,) = torch.autograd.grad(loss, logits)
    assert_close(loss.detach(), tensor(step["loss"]), rtol=1e-9, atol=0)
    assert_close(gradient, tensor(step["grad_logits"]), rtol=1e-9, atol=1e-11)


def test_focal_loss_gives_the_published_numbers(golden):
    case = golden("focal_loss")
    criterion = FocalLoss(focus=case["hyper"]["gamma_b"], positive_balance=case["hyper"]["alpha"], reduction="sum")
    for step in case["steps"]:
        logits = tensor(step["logits"]).requires_grad_()
        assert_golden(criterion(logits, focal_labels(step["labels"]), normalizer=step["normalizer"]), logits, step)


def test_quality_focal_loss_gives_the_published_numbers(golden):
    case = golden("quality_focal_loss")
    criterion = QualityFocalLoss(focus=case["hyper"]["gamma_b"], reduction="sum")
    for step in case["steps"]:
        logits = tensor(step["logits"]).requires_grad_()
        labels, quality = focal_labels(step["labels"]), tensor(step["quality"])
        assert_golden(criterion(logits, labels, quality, normalizer=step["normalizer"]), logits, step)


def test_gradient_blocking_gives_the_published_numbers(golden):
    case = golden("grad_blocking")
    criterion = GradientBlockingLoss(case["class_frequency"], threshold=case["hyper"]["lambda_"])
    for step in case["steps"]:
        logits = tensor(step["logits"]).requires_grad_()
        labels = torch.tensor(step["labels"])
        labels = torch.where(labels == case["background_label"], BACKGROUND, labels)
        assert_golden(criterion(logits, labels), logits, step)


# ---- values worked out by hand, at p = 1/2 where every BCE is log 2

LOG2 = math.log(2)


def zeros(num_samples, num_classes=2):
    return torch.zeros(num_samples, num_classes, dtype=torch.float64, requires_grad=True)


def test_bce_sums_over_categories_and_averages_over_samples():
    assert_close(BinaryCrossEntropyLoss()(zeros(3), torch.tensor([0, BACKGROUND, IGNORE])).detach(), tensor(2 * LOG2))


def test_class_balanced_bce_weighs_all_entries_of_a_sample_by_its_category():
    # Weights 6/5 and 4/5; background 1.
    criterion = BinaryCrossEntropyLoss(weight=effective_number_weights([1, 2], 0.5), reduction="sum")
    loss = criterion(zeros(3), torch.tensor([0, 1, BACKGROUND]))
    assert_close(loss.detach(), tensor((1.2 + 0.8 + 1.0) * 2 * LOG2))
    # A sample of both categories counts as their mean, one of none as background.
    loss = criterion(zeros(2), tensor([[1.0, 1.0], [0.0, 0.0]]))
    assert_close(loss.detach(), tensor(2 * 2 * LOG2))


def test_focal_loss_by_hand():
    # (1/2)^2 log 2 an entry; alpha 1/4 for the positive and 3/4 for the negative.
    assert_close(FocalLoss()(zeros(1), torch.tensor([0])).detach(), tensor(0.25 * LOG2))


def test_quality_focal_loss_by_hand():
    # Positive: |3/4 - 1/2|^2 log 2; negative: (1/2)^2 log 2.
    loss = QualityFocalLoss()(zeros(1), torch.tensor([0]), tensor([0.75]))
    assert_close(loss.detach(), tensor((1 / 16 + 1 / 4) * LOG2))


def test_gradient_blocking_spares_rare_categories_from_foreground_only():
    criterion = GradientBlockingLoss([0.5, 0.001], threshold=0.01, reduction="sum")
    logits = zeros(3)
    criterion(logits, torch.tensor([0, 1, BACKGROUND])).backward()
    assert_close(logits.grad, tensor([[-0.5, 0.0], [0.5, -0.5], [0.5, 0.5]]))


def test_a_frequency_at_the_threshold_is_not_rare():
    assert GradientBlockingLoss([0.5, 0.01], threshold=0.01).kept.tolist() == [1, 1]


def test_effective_margin_by_hand():
    # n+ = (16, 1), no background: n- = (1, 16), margins log(16) / 4 and -log(16) / 4, weights a log(1 + 1/a).
    criterion = EffectiveClassMarginLoss([16, 1], background_ratio=0)
    weights = [math.log(17) / 16, 16 * math.log(17 / 16)]
    # p = 2/3 and 1/3: both errors are 1/3.
    loss = criterion(zeros(1), torch.tensor([0]))
    assert_close(loss.detach(), tensor((weights[0] + weights[1]) * math.log(3 / 2)))


def test_focal_eql_records_the_gradient_of_what_it_returns():
    batch = Batch()
    criterion = losses()["focal_eql"]
    before = criterion.statistics.positive.clone(), criterion.statistics.negative.clone()
    _, gradient = batch.run(criterion)
    positive, negative = gradient_sums(gradient, batch.labels)
    assert_close(criterion.statistics.positive - before[0], positive)
    assert_close(criterion.statistics.negative - before[1], negative)


# ---- limits


def test_efl_without_extra_focus_is_focal_loss():
    batch = Batch()
    efl = mid_training(EqualizedFocalLoss(4, focus_scale=0))
    assert_close(batch.run(efl), batch.run(FocalLoss()))


def test_eqfl_without_extra_focus_is_quality_focal_loss():
    batch = Batch()
    eqfl = mid_training(EqualizedQualityFocalLoss(4, focus_scale=0))
    logits = batch.logits
    loss = eqfl(logits, batch.labels, batch.quality)
    assert_close((loss.detach(), torch.autograd.grad(loss, logits)[0]), batch.run(QualityFocalLoss()))


def test_sigmoid_eql_without_reweighting_is_bce():
    batch = Batch()
    eql = mid_training(SigmoidEqualizationLoss(4, reweight_positive=False, reweight_negative=False))
    assert_close(batch.run(eql), batch.run(BinaryCrossEntropyLoss()))


def test_focal_loss_without_focus_and_balance_is_bce():
    batch = Batch()
    assert_close(batch.run(FocalLoss(focus=0, positive_balance=None)), batch.run(BinaryCrossEntropyLoss()))


def test_focal_eql_is_focal_loss_at_first_and_sigmoid_eql_without_focus():
    batch = Batch()
    assert_close(batch.run(FocalEqualizationLoss(4)), batch.run(FocalLoss()))
    without_focus = mid_training(FocalEqualizationLoss(4, focus=0, positive_balance=None))
    assert_close(batch.run(without_focus), batch.run(mid_training(SigmoidEqualizationLoss(4))))


def test_gradient_blocking_without_rare_categories_is_bce():
    batch = Batch()
    assert_close(batch.run(GradientBlockingLoss(FREQUENCY, threshold=0)), batch.run(BinaryCrossEntropyLoss()))


def test_federated_loss_over_all_categories_is_bce():
    batch = Batch()
    assert_close(batch.run(FederatedLoss(COUNTS, num_sampled=4)), batch.run(BinaryCrossEntropyLoss()))


# ---- federated sampling


@given(seed=seeds, num_sampled=st.integers(0, 12), labels=st.lists(st.integers(-1, 9), max_size=6))
@few_examples
def test_federated_loss_counts_the_categories_of_the_batch_and_as_many_others_as_asked(seed, num_sampled, labels):
    criterion = FederatedLoss([5, 5, 5, 5, 5, 5, 5, 5, 0, 0], num_sampled=num_sampled, seed=seed)
    labels = torch.tensor(labels, dtype=torch.int64)
    sampled = criterion.sample_categories(torch.zeros(len(labels), 10), labels)
    present = set(labels.tolist()) - {BACKGROUND}
    chosen = set(sampled.nonzero().flatten().tolist())
    assert present <= chosen
    assert not (chosen - present) & {8, 9}  # without samples: never drawn
    assert len(chosen) == max(len(present), min(num_sampled, len(present | set(range(8)))))


def test_federated_loss_drops_the_negatives_of_all_other_categories():
    logits = zeros(2, 6)
    criterion = FederatedLoss([1] * 6, num_sampled=3, reduction="sum")
    sampled = criterion.sample_categories(logits, torch.tensor([4, BACKGROUND]))
    criterion.uniform.num_calls.zero_()
    loss = criterion(logits, torch.tensor([4, BACKGROUND]))
    loss.backward()
    assert_close(loss.detach(), tensor(2 * 3 * LOG2))
    assert_close(logits.grad.abs(), 0.5 * sampled.expand(2, 6))


def test_frequent_categories_are_drawn_more_often():
    criterion = FederatedLoss([900, 100], num_sampled=1, power=0.5, seed=3)
    logits, labels = torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64)
    drawn = sum(criterion.sample_categories(logits, labels) for _ in range(2000)) / 2000
    # sqrt(900) : sqrt(100) = 3 : 1; the standard deviation is 0.01.
    assert_close(drawn, tensor([0.75, 0.25]), rtol=0, atol=0.04)


def test_draws_change_each_step_and_continue_from_a_checkpoint():
    def draw(criterion, times):
        logits, labels = torch.zeros(0, 50), torch.zeros(0, dtype=torch.int64)
        return [criterion.sample_categories(logits, labels) for _ in range(times)]

    criterion = FederatedLoss([1] * 50, num_sampled=10)
    first = draw(criterion, 3)
    assert any((first[0] != other).any() for other in first[1:])
    restored = FederatedLoss([1] * 50, num_sampled=10)
    restored.load_state_dict(criterion.state_dict())
    torch.manual_seed(99)  # of no consequence
    assert_close(draw(restored, 2), draw(criterion, 2), rtol=0, atol=0)
    assert_close(draw(FederatedLoss([1] * 50, num_sampled=10), 3), first, rtol=0, atol=0)
    other_seed = draw(FederatedLoss([1] * 50, num_sampled=10, seed=1), 3)
    assert any((a != b).any() for a, b in zip(other_seed, first, strict=True))


def federated_rank(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    labels = torch.tensor([3, 5, 9, 9, 11])
    own = labels[:2] if rank == 0 else labels[2:]
    criterion = FederatedLoss([1] * 20, num_sampled=8)
    torch.save(criterion.sample_categories(torch.zeros(len(own), 20), own), f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_two_ranks_sample_the_categories_one_rank_would(tmp_path):
    run_ranks(federated_rank, tmp_path)
    criterion = FederatedLoss([1] * 20, num_sampled=8)
    alone = criterion.sample_categories(torch.zeros(5, 20), torch.tensor([3, 5, 9, 9, 11]))
    assert alone.sum() == 8
    for rank in range(2):
        assert_close(torch.load(tmp_path / f"{rank}.pt", weights_only=True), alone, rtol=0, atol=0)


# ---- what every loss promises


@all_losses
def test_mean_sum_and_normalizer_are_multiples(name):
    batch = Batch()
    num_counted = int((batch.labels != IGNORE).sum())
    mean = batch.run(losses()[name])
    by_normalizer = batch.run(losses()[name], normalizer=torch.tensor(2.5))
    criterion = losses()[name]
    criterion.reduction = "sum"
    for summed, averaged, divided in zip(batch.run(criterion), mean, by_normalizer, strict=True):
        assert_close(summed, num_counted * averaged)
        assert_close(divided, summed / 2.5)


@all_losses
def test_ignored_samples_have_no_part(name):
    batch = Batch()
    expected = batch.run(losses()[name])
    garbage = batch.logits.detach().clone()
    garbage[batch.labels == IGNORE] = tensor([torch.nan, torch.inf, -torch.inf, 1e30])
    result = batch.run(losses()[name], garbage.requires_grad_())
    assert_close(result, expected)
    assert (result[1][batch.labels == IGNORE] == 0).all()


@all_losses
@pytest.mark.parametrize("kind", ["empty", "all_ignored"])
def test_a_batch_without_samples_gives_zero_that_backpropagates(name, kind):
    batch = Batch(0 if kind == "empty" else 3)
    batch.labels.fill_(IGNORE)
    loss, gradient = batch.run(losses()[name])
    assert loss == 0
    assert_close(gradient, torch.zeros_like(gradient))


@all_losses
def test_extreme_logits_stay_finite(name):
    batch = Batch(3)
    batch.labels.copy_(torch.tensor([1, 0, BACKGROUND]))
    logits = torch.tensor([[1e4, -1e4, 0.0, 0.0], [-1e4, 1e4, 1e4, -1e4], [1e4] * 4], requires_grad=True)
    loss, gradient = batch.run(losses()[name], logits)
    assert loss.isfinite()
    assert gradient.isfinite().all()
    assert gradient.any()


@all_losses
@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_images_equal_rows(name, layout):
    batch = Batch(2, 3, 5)
    in_rows = Batch(30)
    in_rows.logits = rows(batch.logits.detach()).requires_grad_()
    in_rows.labels, in_rows.quality = batch.labels.flatten(), batch.quality.flatten()
    if layout == "channels_last":
        batch.logits = batch.logits.detach().to(memory_format=torch.channels_last).requires_grad_()
    loss, gradient = batch.run(losses()[name])
    expected, expected_gradient = in_rows.run(losses()[name])
    assert_close(loss, expected)
    assert_close(rows(gradient), expected_gradient)


@all_losses
def test_blocks_change_nothing(name, monkeypatch):
    batch = Batch(29)
    expected = batch.run(losses()[name])
    monkeypatch.setattr("equigrad.losses.blockwise.MAX_BLOCK_ELEMENTS", 12)  # three samples
    assert_close(batch.run(losses()[name]), expected)


@all_losses
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(name, dtype):
    batch = Batch(dtype=dtype)
    loss, gradient = batch.run(losses()[name])
    expected, expected_gradient = batch.run(losses()[name], batch.logits.detach().double().requires_grad_())
    assert loss.dtype == torch.float32
    assert gradient.dtype == dtype
    assert_close(loss.double(), expected, rtol=1e-4, atol=1e-5)
    assert_close(gradient.double(), expected_gradient, rtol=2e-2, atol=1e-3)


@all_losses
@pytest.mark.parametrize(
    ("logits", "labels", "error", "message"),
    [
        (torch.zeros(2, 4), torch.tensor([0, 4]), ValueError, "labels must be 0 ... 3"),
        (torch.zeros(2, 4), torch.tensor([0, -2]), ValueError, "got -2 at flat index 1"),
        (torch.zeros(2, 4), torch.tensor([0, 1, 2]), ValueError, "got torch.int64 of shape"),
        (torch.zeros(2, 4, dtype=torch.int64), torch.tensor([0, 1]), ValueError, "floating point"),
        ([[0.0] * 4], torch.tensor([0]), TypeError, "logits must be a Tensor"),
    ],
)
def test_wrong_inputs_are_refused(name, logits, labels, error, message):
    extra = [torch.zeros(2)] if name == "quality_focal" else []
    with pytest.raises(error, match=message):
        losses()[name](logits, labels, *extra)


@pytest.mark.parametrize("name", [name for name in LOSSES if name not in ("bce", "focal", "quality_focal")])
def test_a_wrong_number_of_columns_is_refused(name):
    with pytest.raises(ValueError, match=r"logits must be \(N, 4\)"):
        losses()[name](torch.zeros(2, 5), torch.tensor([0, 1]))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: FocalLoss(focus=-1), ValueError, "focus must be finite and >= 0"),
        (lambda: FocalLoss(positive_balance=1.5), ValueError, "positive_balance must be within"),
        (lambda: QualityFocalLoss(focus="2"), TypeError, "focus must be a number"),
        (lambda: FocalEqualizationLoss(0), ValueError, "num_classes must be at least 1"),
        (lambda: FocalEqualizationLoss(4, mapping="cubic"), ValueError, "mapping must be one of"),
        (lambda: FocalEqualizationLoss(4, half_life=0), ValueError, "half_life must be finite and > 0"),
        (lambda: GradientBlockingLoss([0.1, math.nan], threshold=0.1), ValueError, "category_frequency must be finite"),
        (lambda: GradientBlockingLoss(FREQUENCY, threshold=-1), ValueError, "threshold"),
        (lambda: FederatedLoss(COUNTS, num_sampled=2.5), TypeError, "num_sampled must be an int"),
        (lambda: FederatedLoss(COUNTS, power=-1), ValueError, "power"),
        (lambda: FederatedLoss(COUNTS, seed="0"), TypeError, "seed must be an int"),
        (lambda: EffectiveClassMarginLoss([0, 0]), ValueError, "not be all 0"),
        (lambda: EffectiveClassMarginLoss([5], background_ratio=0), ValueError, "leave no negatives"),
        (lambda: BinaryCrossEntropyLoss(weight=[-1.0, 1.0]), ValueError, "weight must be finite"),
    ],
)
def test_wrong_arguments_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


@all_losses
def test_evaluation_leaves_the_state_alone(name):
    criterion = losses()[name].eval()
    before = copy.deepcopy(criterion.state_dict())
    batch = Batch()
    batch.loss(criterion)
    with torch.no_grad():
        batch.loss(criterion.train())
    assert_close(dict(criterion.state_dict()), dict(before), rtol=0, atol=0)


@all_losses
def test_the_state_survives_a_checkpoint(name):
    criterion, restored = losses()[name], losses()[name]
    batch = Batch()
    for _ in range(2):
        batch.loss(criterion)
    restored.load_state_dict(criterion.state_dict())
    assert_close(batch.run(restored), batch.run(criterion), rtol=0, atol=0)


@all_losses
def test_a_loss_survives_pickling_and_copying(name):
    criterion = losses()[name]
    batch = Batch()
    copied, pickled = copy.deepcopy(criterion), pickle.loads(pickle.dumps(criterion))
    expected = batch.run(criterion)
    assert_close(batch.run(copied), expected, rtol=0, atol=0)
    assert_close(batch.run(pickled), expected, rtol=0, atol=0)


@all_losses
def test_a_half_precision_model_does_not_round_the_constants_of_its_loss(name):
    batch = Batch()
    expected = batch.run(losses()[name])
    assert_close(batch.run(nn.ModuleList([losses()[name]]).half()[0]), expected, rtol=0, atol=0)


def test_a_count_of_zero_is_finite_everywhere():
    batch = Batch()
    for criterion in (FederatedLoss([9, 0, 0, 1], num_sampled=3), EffectiveClassMarginLoss([9, 0, 0, 1])):
        loss, gradient = batch.run(criterion)
        assert loss.isfinite()
        assert gradient.isfinite().all()


def test_objectness_stands_beside_effective_margins():
    batch = Batch()
    objectness = torch.randn(13, 1, dtype=torch.float64)
    joined = WithObjectness(EffectiveClassMarginLoss(COUNTS))(torch.cat([batch.logits, objectness], 1), batch.labels)
    alone = EffectiveClassMarginLoss(COUNTS)(batch.logits, batch.labels)
    branch = BinaryCrossEntropyLoss()(objectness, batch.labels.clamp(max=0))
    assert_close(joined, alone + branch)


@pytest.mark.parametrize("label", [0, 1, BACKGROUND])
def test_ecm_of_large_half_precision_logits_is_finite(label):
    criterion = EffectiveClassMarginLoss([10, 5, 2])
    logits = torch.tensor([[-60000.0, 60000.0, 1.0]], dtype=torch.float16)
    expected = criterion(logits.double(), torch.tensor([label]))
    assert_close(criterion(logits, torch.tensor([label])).double(), expected, rtol=1e-5, atol=0)


@pytest.mark.parametrize(
    ("targets", "normalizer", "message"),
    [
        (torch.tensor([0, 1]), -1.0, "normalizer must be finite and > 0"),
        (torch.full((2, 4), 1.5), None, r"soft targets must be within \[0, 1\]"),
    ],
)
def test_a_refused_call_of_the_federated_loss_does_not_use_up_random_numbers(targets, normalizer, message):
    criterion = FederatedLoss(COUNTS, num_sampled=2)
    with pytest.raises(ValueError, match=message):
        criterion(torch.zeros(2, 4), targets, normalizer=normalizer)
    assert criterion.uniform.num_calls == 0
