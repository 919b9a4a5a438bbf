"""The softmax losses that Softmax-EQL is compared with."""

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
    BalancedSoftmaxLoss,
    CrossEntropyLoss,
    LADELoss,
    LDAMLoss,
    LogitAdjustmentLoss,
    SeesawLoss,
    SoftmaxEqualizationLoss,
    SoftmaxObjectnessScores,
    WithObjectness,
    effective_number_weights,
)
from equigrad.losses import reference
from quick_processes import run_ranks

COUNTS = [100, 40, 8, 1]
FLOAT32_EPS = torch.finfo(torch.float32).eps

few_examples = settings(max_examples=10)  # a busy machine is no failure
seeds = st.integers(0, 2**16)
counts_of_four = st.lists(st.integers(0, 10**6), min_size=4, max_size=4).filter(any)


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def losses():
    """One of each, mid-training where that matters."""
    seesaw = SeesawLoss(4)
    seesaw.category_counts.copy_(tensor(COUNTS))
    return {
        "cross_entropy": CrossEntropyLoss(),
        "weighted": CrossEntropyLoss(weight=effective_number_weights(COUNTS, 0.9)),
        "balanced_softmax": BalancedSoftmaxLoss(COUNTS),
        "logit_adjustment": LogitAdjustmentLoss(COUNTS, strength=1.5),
        "lade": LADELoss(COUNTS),
        "seesaw": seesaw.eval(),
        "ldam": LDAMLoss(COUNTS, scale=5.0),
        "ldam_drw": LDAMLoss(COUNTS, scale=5.0, deferral=0, beta=0.9),
    }


LOSSES = list(losses())
all_losses = pytest.mark.parametrize("name", LOSSES)


def batch(num_samples=13, num_classes=4, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(num_samples, num_classes, generator=generator, dtype=torch.float64)
    labels = torch.randint(num_classes, (num_samples,), generator=generator)
    labels[1::5] = IGNORE
    return logits.to(dtype).requires_grad_(), labels


def value_and_gradient(loss, logits):
    (gradient,) = torch.autograd.grad(loss, logits)
    return loss.detach(), gradient


def formula(name, logits, labels):
    """The loss of each sample by its plain formula."""
    counts = tensor(COUNTS)
    margin = 0.5 * (1 / counts) ** 0.25
    weight = effective_number_weights(COUNTS, 0.9)
    return {
        "cross_entropy": lambda: reference.cross_entropy(logits, labels),
        "weighted": lambda: reference.cross_entropy(logits, labels, weight),
        "balanced_softmax": lambda: reference.balanced_softmax(logits, labels, counts),
        "logit_adjustment": lambda: reference.logit_adjustment(logits, labels, counts / counts.sum(), 1.5),
        "lade": lambda: reference.lade(logits, labels, counts / counts.sum()),
        "seesaw": lambda: reference.seesaw(logits, labels, counts),
        "ldam": lambda: reference.ldam(logits, labels, margin, 5.0),
        "ldam_drw": lambda: reference.ldam(logits, labels, margin, 5.0, weight),
    }[name]()


@all_losses
@given(seed=seeds)
@few_examples
def test_value_and_gradient_are_those_of_the_plain_formula(name, seed):
    criterion = losses()[name]
    logits, labels = batch(seed=seed)
    expected = formula(name, logits, labels).sum() / (labels != IGNORE).sum()
    loss, gradient = value_and_gradient(criterion(logits, labels), logits)
    expected, expected_gradient = value_and_gradient(expected, logits)
    assert_close(loss, expected, rtol=1e-10, atol=1e-10)
    assert_close(gradient, expected_gradient, rtol=1e-10, atol=1e-12)


# ---- published numbers


@pytest.fixture
def class_counts(golden):
    case = golden("class_count_losses")
    return case, tensor(case["logits"]).requires_grad_(), torch.tensor(case["labels"])


def assert_golden(result, expected, tolerance=1e-9):
    loss, gradient = result
    assert_close(loss, tensor(expected["loss"]), rtol=tolerance, atol=0)
    assert_close(gradient, tensor(expected["grad_logits"]), rtol=tolerance, atol=tolerance * 1e-2)


def test_balanced_softmax_gives_the_published_numbers(class_counts):
    case, logits, labels = class_counts
    loss = BalancedSoftmaxLoss(case["class_counts"])(logits, labels)
    assert_golden(value_and_gradient(loss, logits), case["results"]["balanced_softmax"])


def test_lade_without_its_regulariser_gives_the_published_numbers(class_counts):
    case, logits, labels = class_counts
    loss = LADELoss(case["class_counts"], weight=0)(logits, labels)
    assert_golden(value_and_gradient(loss, logits), case["results"]["lade_ce"])


@pytest.mark.parametrize("penalty", [0.1, 0.5])
def test_the_regulariser_of_lade_gives_the_published_numbers(class_counts, penalty):
    case, logits, labels = class_counts
    with_regulariser = LADELoss(case["class_counts"], weight=1, penalty=penalty)(logits, labels)
    without = LADELoss(case["class_counts"], weight=0)(logits, labels)
    result = value_and_gradient(with_regulariser - without, logits)
    assert_golden(result, case["results"][f"lade_regulariser_lambda_{penalty}"], tolerance=1e-6)


def seesaw_inputs(case, step):
    """Their last two columns are object and background; a softmax of two is a sigmoid of the difference."""
    logits = tensor(step["logits"]).requires_grad_()
    labels = torch.tensor(step["labels"])
    labels = torch.where(labels == case["num_classes"], BACKGROUND, labels)
    return logits, torch.cat([logits[:, :-2], logits[:, -2:-1] - logits[:, -1:]], dim=1), labels


def test_seesaw_with_objectness_gives_the_published_numbers(golden):
    case = golden("seesaw_default")
    criterion = WithObjectness(SeesawLoss(case["num_classes"]))
    for step in case["steps"]:
        assert step["avg_factor"] is None
        logits, joined, labels = seesaw_inputs(case, step)
        assert_golden(value_and_gradient(criterion(joined, labels), logits), step)
        assert_close(criterion.loss.category_counts, tensor(step["cum_samples_after"])[:-1], rtol=0, atol=0)


def test_seesaw_with_row_weights_and_a_divisor_gives_the_published_numbers(golden):
    # A row weight multiplies the row's loss at the counts of the whole batch: count once, then take each row alone.
    case = golden("seesaw_weighted")
    criterion = WithObjectness(SeesawLoss(case["num_classes"]))
    for step in case["steps"]:
        logits, joined, labels = seesaw_inputs(case, step)
        criterion.train()(joined, labels)
        assert_close(criterion.loss.category_counts, tensor(step["cum_samples_after"])[:-1], rtol=0, atol=0)
        criterion.eval()
        normalizer = step["avg_factor"] + FLOAT32_EPS
        weights = step["label_weights"] or [1.0] * len(labels)
        rows = [
            w * criterion(z[None], y[None], normalizer=normalizer)
            for w, z, y in zip(weights, joined, labels, strict=True)
        ]
        loss = case["hyper"]["loss_weight"] * torch.stack(rows).sum()
        assert_golden(value_and_gradient(loss, logits), step)


@pytest.mark.parametrize("name", ["seesaw_default", "seesaw_weighted"])
def test_the_scores_of_seesaw_with_objectness_are_the_published_ones(golden, name):
    case = golden(name)["inference"]
    logits = tensor(case["logits"])
    joined = torch.cat([logits[:, :-2], logits[:, -2:-1] - logits[:, -1:]], dim=1)
    assert_close(SoftmaxObjectnessScores()(joined), tensor(case["scores"])[:, :-1], rtol=1e-9, atol=1e-15)


# ---- values worked out by hand


def test_balanced_softmax_of_equal_logits_is_the_log_of_the_share():
    loss = BalancedSoftmaxLoss([3, 1])(torch.zeros(1, 2, dtype=torch.float64), torch.tensor([1]))
    assert_close(loss, tensor(math.log(4)))


def test_logit_adjustment_raises_the_prior_to_its_strength():
    criterion = LogitAdjustmentLoss([3, 1], strength=2.0)
    assert_close(criterion.margin, tensor([math.log(9 / 16), math.log(1 / 16)]))


def test_seesaw_mitigates_by_counts_and_compensates_by_probabilities():
    criterion = SeesawLoss(2, mitigation=0.5, compensation=2.0).eval()
    criterion.category_counts.copy_(tensor([16.0, 4.0]))
    # p = (1/4, 3/4). Label 0: M = (4/16)^0.5 = 1/2, S = 3^2 = 9, so the odds of category 1 are 3 * 9/2.
    logits = tensor([[0.0, math.log(3)]])
    assert_close(criterion(logits, torch.tensor([0])), tensor(math.log(1 + 13.5)))
    # Label 1 is rarer and ahead: both factors are 1.
    assert_close(criterion(logits, torch.tensor([1])), tensor(math.log(4 / 3)))


def test_lade_by_hand():
    # Prior (1/2, 1/2), one sample of each: M_j = log mean_i e^z_ij, and z_jj = log 3 for both.
    logits = tensor([[math.log(3), 0.0], [0.0, math.log(3)]])
    log_mean = math.log((3 + 1) / 2)
    regulariser = -(math.log(3) - log_mean - 0.1 * log_mean**2)
    expected = math.log(4 / 3) + 0.1 * regulariser
    assert_close(LADELoss([5, 5])(logits, torch.tensor([0, 1])), tensor(expected), rtol=1e-7, atol=0)


def test_ldam_gives_the_rarest_category_the_largest_margin():
    criterion = LDAMLoss([16, 1], max_margin=0.5, scale=2.0)
    logits = torch.zeros(1, 2, dtype=torch.float64)
    # Margins (1/2) (1/16)^(1/4) = 1/4 and 1/2, times the scale.
    assert_close(criterion(logits, torch.tensor([0])), tensor(math.log(1 + math.exp(0.5))))
    assert_close(criterion(logits, torch.tensor([1])), tensor(math.log(1 + math.exp(1.0))))


def test_effective_number_weights_by_hand():
    # beta = 1/2: effective numbers 2 (1 - 1/2^n) = 1 and 3/2, weights 1 and 2/3, mean 5/6.
    assert_close(effective_number_weights([1, 2], 0.5), tensor([6 / 5, 4 / 5]))
    assert_close(effective_number_weights([1, 1000], 0.0), tensor([1.0, 1.0]))
    assert_close(effective_number_weights([1, 9], 1 - 1e-12), tensor([1.8, 0.2]), rtol=1e-9, atol=0)


def test_class_balanced_cross_entropy_weighs_samples_by_their_category():
    criterion = CrossEntropyLoss(weight=effective_number_weights([1, 2], 0.5), reduction="sum")
    logits = torch.zeros(3, 2, dtype=torch.float64)
    assert_close(criterion(logits, torch.tensor([0, 1, 1])), tensor((1.2 + 0.8 + 0.8) * math.log(2)))


def test_the_weighted_mean_of_torch_is_a_normalizer():
    weights = effective_number_weights(COUNTS, 0.9)
    logits, labels = batch()
    counted = labels != IGNORE
    loss = CrossEntropyLoss(weight=weights)(logits, labels, normalizer=weights[labels[counted]].sum())
    assert_close(loss, nn.CrossEntropyLoss(weights, ignore_index=IGNORE)(logits, labels))


# ---- limits


def test_softmax_eql_before_statistics_is_cross_entropy():
    logits, labels = batch()
    assert_close(SoftmaxEqualizationLoss(4)(logits, labels), CrossEntropyLoss()(logits, labels))


@given(counts=st.lists(st.integers(1, 10**6), min_size=4, max_size=4), seed=seeds)
@few_examples
def test_logit_adjustment_of_strength_one_is_balanced_softmax(counts, seed):
    logits, labels = batch(seed=seed)
    adjusted = value_and_gradient(LogitAdjustmentLoss(counts)(logits, labels), logits)
    balanced = value_and_gradient(BalancedSoftmaxLoss(counts)(logits, labels), logits)
    # The published epsilon of 1e-12 is 4e-6 of the rarest share here.
    assert_close(adjusted, balanced, rtol=1e-5, atol=1e-8)


def test_equal_counts_make_every_margin_loss_cross_entropy():
    logits, labels = batch()
    expected = CrossEntropyLoss()(logits, labels)
    for criterion in (BalancedSoftmaxLoss([7] * 4), LogitAdjustmentLoss([7] * 4), LADELoss([7] * 4, weight=0)):
        assert_close(criterion(logits, labels), expected)


def test_seesaw_without_factors_is_cross_entropy():
    logits, labels = batch()
    criterion = SeesawLoss(4, mitigation=0, compensation=0)
    assert_close(criterion(logits, labels), CrossEntropyLoss()(logits, labels))


def test_ldam_without_margin_is_cross_entropy_of_scaled_logits():
    logits, labels = batch()
    assert_close(LDAMLoss(COUNTS, max_margin=0, scale=3)(logits, labels), CrossEntropyLoss()(3 * logits, labels))


# ---- counts with zeros


@given(counts=counts_of_four, seed=seeds)
@few_examples
def test_any_counts_with_a_sample_give_finite_losses_and_gradients(counts, seed):
    logits, labels = batch(seed=seed)
    weights = effective_number_weights(counts)
    criteria = [
        BalancedSoftmaxLoss(counts),
        LogitAdjustmentLoss(counts),
        LADELoss(counts),
        LDAMLoss(counts, deferral=0),
    ]
    for criterion in [*criteria, CrossEntropyLoss(weight=weights)]:
        loss, gradient = value_and_gradient(criterion(logits, labels), logits)
        assert loss.isfinite()
        assert gradient.isfinite().all()


def test_a_category_without_samples_counts_as_one():
    assert_close(BalancedSoftmaxLoss([10, 0]).margin, tensor([math.log(10), 0.0]))
    assert_close(LDAMLoss([16, 0]).label_margin, LDAMLoss([16, 1]).label_margin)


def test_of_shares_a_category_without_samples_has_the_smallest():
    assert_close(BalancedSoftmaxLoss([0.9, 0.1, 0.0]).margin, tensor([0.9, 0.1, 0.1]).log())


def test_a_category_without_samples_does_not_move_the_weights_of_the_others():
    assert_close(effective_number_weights([1, 2, 0], 0.5)[:2], effective_number_weights([1, 2], 0.5))


# ---- what every loss promises


@all_losses
def test_mean_sum_and_normalizer_are_multiples(name):
    logits, labels = batch()
    num_counted = int((labels != IGNORE).sum())
    criterion = losses()[name]
    mean = value_and_gradient(criterion(logits, labels), logits)
    by_normalizer = value_and_gradient(criterion(logits, labels, normalizer=2.5), logits)
    criterion.reduction = "sum"
    total = value_and_gradient(criterion(logits, labels), logits)
    for summed, averaged, divided in zip(total, mean, by_normalizer, strict=True):
        assert_close(summed, num_counted * averaged)
        assert_close(divided, summed / 2.5)


@all_losses
def test_ignored_samples_have_no_part(name):
    logits, labels = batch()
    criterion = losses()[name]
    loss, gradient = value_and_gradient(criterion(logits, labels), logits)
    garbage = logits.detach().clone()
    garbage[labels == IGNORE] = torch.tensor([torch.nan, torch.inf, -torch.inf, 1e30], dtype=torch.float64)
    garbage.requires_grad_()
    other, other_gradient = value_and_gradient(losses()[name](garbage, labels), garbage)
    assert_close(other, loss)
    assert_close(other_gradient, gradient)
    assert (other_gradient[labels == IGNORE] == 0).all()


@all_losses
@pytest.mark.parametrize("kind", ["empty", "all_ignored"])
def test_a_batch_without_samples_gives_zero_that_backpropagates(name, kind):
    num_samples = 0 if kind == "empty" else 3
    logits = torch.randn(num_samples, 4, requires_grad=True)
    loss = losses()[name](logits, torch.full((num_samples,), IGNORE))
    loss.backward()
    assert loss == 0
    assert_close(logits.grad, torch.zeros(num_samples, 4))


@all_losses
def test_extreme_logits_stay_finite(name):
    logits = torch.tensor([[1e4, -1e4, 0.0, 0.0], [-1e4, 1e4, 1e4, -1e4], [1e4] * 4], requires_grad=True)
    loss, gradient = value_and_gradient(losses()[name](logits, torch.tensor([1, 0, 3])), logits)
    assert loss.isfinite()
    assert gradient.isfinite().all()
    assert gradient.any()


@all_losses
@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_images_equal_rows(name, layout):
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(2, 4, 3, 5, generator=generator, dtype=torch.float64)
    labels = torch.randint(4, (2, 3, 5), generator=generator)
    labels[0, 0] = IGNORE
    rows = logits.movedim(1, -1).reshape(-1, 4).requires_grad_()
    if layout == "channels_last":
        logits = logits.to(memory_format=torch.channels_last)
    logits.requires_grad_()
    loss, gradient = value_and_gradient(losses()[name](logits, labels), logits)
    expected, expected_gradient = value_and_gradient(losses()[name](rows, labels.flatten()), rows)
    assert_close(loss, expected)
    assert_close(gradient.movedim(1, -1).reshape(-1, 4), expected_gradient)


@all_losses
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(name, dtype):
    logits, labels = batch(dtype=dtype)
    loss, gradient = value_and_gradient(losses()[name](logits, labels), logits)
    exact = logits.detach().double().requires_grad_()
    expected, expected_gradient = value_and_gradient(losses()[name](exact, labels), exact)
    assert loss.dtype == torch.float32
    assert gradient.dtype == dtype
    assert_close(loss.double(), expected, rtol=1e-4, atol=1e-5)
    assert_close(gradient.double(), expected_gradient, rtol=2e-2, atol=1e-3)


@all_losses
def test_blocks_change_nothing(name, monkeypatch):
    logits, labels = batch(num_samples=29)
    expected = value_and_gradient(losses()[name](logits, labels), logits)
    monkeypatch.setattr("equigrad.losses.blockwise.MAX_BLOCK_ELEMENTS", 12)  # three samples
    assert_close(value_and_gradient(losses()[name](logits, labels), logits), expected)


@all_losses
def test_background_is_refused(name):
    with pytest.raises(ValueError, match="softmax loss has no background"):
        losses()[name](torch.zeros(2, 4), torch.tensor([0, BACKGROUND]))


@all_losses
@pytest.mark.parametrize(
    ("logits", "labels", "error", "message"),
    [
        (torch.zeros(2, 4), torch.tensor([0, 4]), ValueError, "labels must be 0 ... 3"),
        (torch.zeros(2, 4), torch.tensor([0, 1, 2]), ValueError, "got torch.int64 of shape"),
        (torch.zeros(2, 4), torch.tensor([0.0, 1.0]), ValueError, "got torch.float32 of shape"),
        (torch.zeros(2, 4, dtype=torch.int64), torch.tensor([0, 1]), ValueError, "floating point"),
        ([[0.0] * 4], torch.tensor([0]), TypeError, "logits must be a Tensor"),
    ],
)
def test_wrong_inputs_are_refused(name, logits, labels, error, message):
    with pytest.raises(error, match=message):
        losses()[name](logits, labels)


@pytest.mark.parametrize("name", [name for name in LOSSES if name != "cross_entropy"])
def test_a_wrong_number_of_columns_is_refused(name):
    with pytest.raises(ValueError, match=r"logits must be \(N, 4\)"):
        losses()[name](torch.zeros(2, 5), torch.tensor([0, 1]))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: BalancedSoftmaxLoss([1, -1]), ValueError, "category_counts must be finite and >= 0; got -1.0 at"),
        (lambda: BalancedSoftmaxLoss([0, 0]), ValueError, "not be all 0"),
        (lambda: BalancedSoftmaxLoss([[1, 2]]), ValueError, r"must be \(C,\)"),
        (lambda: BalancedSoftmaxLoss("many"), TypeError, "sequence or a Tensor"),
        (lambda: BalancedSoftmaxLoss(COUNTS, reduction="average"), ValueError, "reduction must be one of"),
        (lambda: LogitAdjustmentLoss(COUNTS, strength=math.nan), ValueError, "strength must be finite"),
        (lambda: LADELoss(COUNTS, weight=-1), ValueError, "weight must be finite and >= 0"),
        (lambda: LADELoss(COUNTS, penalty="0.1"), TypeError, "penalty must be a number"),
        (lambda: SeesawLoss(0), ValueError, "num_classes must be at least 1"),
        (lambda: SeesawLoss(3.0), TypeError, "num_classes must be an int"),
        (lambda: SeesawLoss(3, mitigation=-0.1), ValueError, "mitigation"),
        (lambda: SeesawLoss(3, compensation=math.inf), ValueError, "compensation"),
        (lambda: LDAMLoss(COUNTS, scale=0), ValueError, "scale must be finite and > 0"),
        (lambda: LDAMLoss(COUNTS, deferral=-1), ValueError, "deferral"),
        (lambda: effective_number_weights(COUNTS, 1.0), ValueError, r"beta must be within \[0, 1\)"),
        (lambda: CrossEntropyLoss(weight=[1.0, math.inf]), ValueError, "weight must be finite"),
    ],
)
def test_wrong_arguments_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


@all_losses
def test_a_loss_survives_pickling_and_copying(name):
    criterion = losses()[name]
    logits, labels = batch()
    expected = copy.deepcopy(criterion)(logits, labels)
    assert_close(pickle.loads(pickle.dumps(criterion))(logits, labels), expected, rtol=0, atol=0)


@all_losses
def test_a_half_precision_model_does_not_round_the_constants_of_its_loss(name):
    logits, labels = batch()
    expected = losses()[name](logits, labels)
    model = nn.ModuleList([losses()[name]]).half()
    assert_close(model[0](logits, labels), expected, rtol=0, atol=0)


# ---- state


def test_seesaw_counts_the_batch_before_its_loss():
    criterion = SeesawLoss(2, mitigation=1.0, compensation=0.0)
    logits = torch.zeros(3, 2, dtype=torch.float64, requires_grad=True)
    # Counts (2, 1) already in this step: odds 1/2 for label 0 against category 1, 1 the other way.
    assert_close(criterion(logits, torch.tensor([0, 0, 1])), tensor((2 * math.log(1.5) + math.log(2)) / 3))
    assert_close(criterion.category_counts, tensor([2.0, 1.0]))


@pytest.mark.parametrize("name", ["seesaw", "ldam_drw"])
def test_evaluation_leaves_the_state_alone(name):
    criterion = losses()[name].eval()
    before = copy.deepcopy(criterion.state_dict())
    logits, labels = batch()
    criterion(logits, labels)
    with torch.no_grad():
        criterion.train()(logits, labels)
    assert_close(criterion.state_dict(), before, rtol=0, atol=0)
    criterion(logits, labels)
    assert any((criterion.state_dict()[key] != value).any() for key, value in before.items())


def test_a_refused_batch_leaves_the_counts_alone():
    criterion = SeesawLoss(4)
    logits, labels = batch()
    with pytest.raises(ValueError, match="normalizer"):
        criterion(logits, labels, normalizer=0)
    assert (criterion.category_counts == 0).all()


def test_seesaw_counts_survive_a_checkpoint_and_half_precision():
    criterion = SeesawLoss(4)
    criterion.category_counts.copy_(tensor([2.0**24 + 1, 3.0, 2.0, 1.0]))
    restored = SeesawLoss(4).half()
    restored.load_state_dict(criterion.state_dict())
    assert restored.half().category_counts.dtype == torch.float64
    assert_close(restored.category_counts, criterion.category_counts, rtol=0, atol=0)


def test_ldam_weights_set_in_after_the_deferral_and_survive_a_checkpoint():
    criterion = LDAMLoss(COUNTS, deferral=2, beta=0.9)
    logits, labels = batch()
    for _ in range(2):
        assert_close(criterion.category_weights(), torch.ones(4, dtype=torch.float64))
        criterion(logits, labels)
    assert_close(criterion.category_weights(), effective_number_weights(COUNTS, 0.9))
    restored = LDAMLoss(COUNTS, deferral=2, beta=0.9)
    restored.load_state_dict(criterion.state_dict())
    assert_close(restored.category_weights(), criterion.category_weights())


# ---- two ranks

STEPS = 3


def seesaw_on(rows_of):
    """Counts and losses of a few steps, each on a part of a joined batch."""
    criterion = SeesawLoss(4, reduction="sum")
    results = []
    for step in range(STEPS):
        logits, labels = batch(num_samples=11, seed=step)
        rows = rows_of(step)
        loss = criterion(logits[rows], labels[rows])
        results.append(torch.cat([loss.detach().reshape(1), criterion.category_counts]))
    return torch.stack(results)


def seesaw_rank(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    cut = [4, 0, 11]  # unequal, and a rank without samples
    results = seesaw_on(lambda step: slice(0, cut[step]) if rank == 0 else slice(cut[step], None))
    torch.save(results, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_two_ranks_count_as_one_on_the_joined_batch(tmp_path):
    run_ranks(seesaw_rank, tmp_path)
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2))
    alone = seesaw_on(lambda step: slice(None))
    assert_close(first[:, 1:], alone[:, 1:], rtol=0, atol=0)
    assert_close(second[:, 1:], alone[:, 1:], rtol=0, atol=0)
    assert_close(first[:, 0] + second[:, 0], alone[:, 0])


@pytest.mark.parametrize("labels", [[0, 1, 2, 1], [0, -100, 2, -100], [-100] * 4])
def test_a_weighted_mean_is_that_of_torch(labels):
    weight = tensor([0.5, 1.0, 4.0])
    logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    labels = torch.tensor(labels)
    loss = CrossEntropyLoss(weight=weight, weighted_mean=True)(logits, labels)
    expected = torch.nn.functional.cross_entropy(logits, labels, weight.double(), reduction="sum")
    total = weight.double()[labels[labels >= 0]].sum()
    assert_close(loss, expected / total if total > 0 else expected)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert gradient.isfinite().all()
    assert CrossEntropyLoss(weight=weight, weighted_mean=True).num_counted(labels) == (total or 1.0)


def test_a_weighted_mean_needs_weights_and_single_labels():
    with pytest.raises(ValueError, match="weighted_mean needs a weight"):
        CrossEntropyLoss(weighted_mean=True)
    with pytest.raises(ValueError, match="one label per sample"):
        CrossEntropyLoss(weight=[1.0, 2.0], weighted_mean=True)(torch.zeros(3, 2), torch.full((3, 2), 0.5))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_lade_of_large_half_precision_logits_has_a_finite_gradient(dtype):
    """The gradient of the sum over 4096 samples is above the largest float16, that of their mean is not."""
    generator = torch.Generator().manual_seed(0)
    logits = 1e4 * torch.rand(4096, 4, generator=generator).round()
    labels = torch.randint(4, (4096,), generator=generator)
    logits[0, 0] = 1.2e4
    half, exact = logits.to(dtype).requires_grad_(), logits.to(dtype).double().requires_grad_()
    LADELoss(COUNTS)(half, labels).backward()
    LADELoss(COUNTS)(exact, labels).backward()
    assert exact.grad.abs().max() * len(labels) > torch.finfo(torch.float16).max
    assert_close(half.grad.double(), exact.grad, rtol=1e-2, atol=1e-7)
