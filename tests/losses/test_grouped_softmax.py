"""BAGS: groups by count, a softmax for each, and the scores that join them."""

import copy
import math
import pickle

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.testing import assert_close

from equigrad import BACKGROUND, IGNORE, GroupedSoftmaxLoss, GroupedSoftmaxScores
from equigrad.losses.grouped_softmax import group_layout

COUNTS = [500, 3, 50, 7, 20]  # groups {1, 3}, {2, 4}, {0}

few_examples = settings(max_examples=20)  # a busy machine is no failure
seeds = st.integers(0, 2**16)


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def batch(*shape, num_logits=10, seed=0, background=True, dtype=torch.float64):
    shape = shape or (40,)
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(shape[0], num_logits, *shape[1:], generator=generator, dtype=torch.float64)
    labels = torch.randint(-1 if background else 0, 5, shape, generator=generator)
    labels.view(-1)[1::7] = IGNORE
    return logits.to(dtype).requires_grad_(), labels


def run(criterion, logits, labels, **options):
    loss = criterion(logits, labels, **options)
    return loss.detach(), torch.autograd.grad(loss, logits)[0]


def plain_loss(logits, labels, groups, background=True):
    """Every sample in every group, from the list of its categories."""
    total, start = torch.zeros(()), 0
    counted = labels != IGNORE
    for group in groups:
        target = torch.zeros_like(labels)
        for place, category in enumerate(group):
            target[labels == category] = place + 1
        part = logits[counted, start : start + len(group) + 1]
        if (target[counted] > 0).any():
            total = total + F.cross_entropy(part, target[counted])
        start += len(group) + 1
    if background:
        total = total + F.cross_entropy(logits[counted, start:], (labels[counted] == BACKGROUND).long())
    return total


@pytest.mark.parametrize("background", [True, False])
@given(seed=seeds)
@few_examples
def test_value_and_gradient_are_those_of_the_plain_formula(background, seed):
    logits, labels = batch(12, num_logits=10 if background else 8, seed=seed, background=background)
    criterion = GroupedSoftmaxLoss(COUNTS, others_ratio=None, background=background)
    expected = plain_loss(logits, labels, [[1, 3], [2, 4], [0]], background)
    (expected_gradient,) = torch.autograd.grad(expected, logits)
    assert_close(run(criterion, logits, labels), (expected.detach(), expected_gradient))


# ---- published numbers


def test_bags_gives_the_published_numbers(golden):
    case = golden("bags")
    logits, labels = tensor(case["logits"]).requires_grad_(), torch.tensor(case["labels"])
    labels = torch.where(labels == case["background_label"], BACKGROUND, labels)
    criterion = GroupedSoftmaxLoss(case["instance_counts"], bounds=case["hyper"]["bin_split"], others_ratio=None)
    loss, gradient = run(criterion, logits, labels)
    assert_close(loss, tensor(case["loss_value"]), rtol=1e-9, atol=0)
    assert_close(gradient, tensor(case["grad_logits"]), rtol=1e-9, atol=1e-11)


def test_the_groups_are_the_published_ones(golden):
    case = golden("bags")
    layout = group_layout(case["instance_counts"])
    groups = [(layout.group == group).nonzero().flatten().tolist() for group in range(4)]
    assert groups == case["groups"][:4]
    assert layout.num_logits == len(case["logits"][0])


def test_bags_scores_are_the_published_ones(golden):
    case = golden("bags")
    scores = GroupedSoftmaxScores(case["instance_counts"])(tensor(case["inference"]["logits"]))
    assert_close(scores, tensor(case["inference"]["scores"])[:, :-1], rtol=1e-9, atol=1e-15)


# ---- layout


def test_the_layout_by_hand():
    layout = group_layout(COUNTS)
    assert layout.sizes == (3, 3, 2, 2)
    assert layout.group.tolist() == [2, 0, 1, 0, 1]
    assert layout.column.tolist() == [7, 1, 4, 2, 5]
    assert layout.others.tolist() == [0, 3, 6, 8]
    assert layout.num_logits == 10


def test_a_count_at_a_bound_begins_the_next_group():
    assert group_layout([9, 10, 99, 100, 999, 1000]).group.tolist() == [0, 1, 1, 2, 2, 3]


def test_an_empty_range_has_no_columns():
    layout = group_layout([5000, 0, 4000], background=False)
    assert layout.sizes == (2, 3)
    assert layout.column.tolist() == [3, 1, 4]


@given(counts=st.lists(st.integers(0, 5000), min_size=1, max_size=12).filter(any))
@few_examples
def test_every_category_has_a_column_of_its_own_beside_the_others(counts):
    layout = group_layout(counts)
    columns = [*layout.column.tolist(), *layout.others.tolist(), layout.num_logits - 1]
    assert sorted(columns) == list(range(layout.num_logits))


# ---- values worked out by hand


def test_a_sample_trains_its_group_and_the_background_group():
    # Groups {others, 0} and {others, 1}; the second has no sample of its own.
    criterion = GroupedSoftmaxLoss([1, 100], bounds=[10], others_ratio=None)
    logits = torch.zeros(2, 6, dtype=torch.float64, requires_grad=True)
    loss, gradient = run(criterion, logits, torch.tensor([0, BACKGROUND]))
    assert_close(loss, tensor(2 * math.log(2)))
    expected = [[0.25, -0.25, 0, 0, -0.25, 0.25], [-0.25, 0.25, 0, 0, 0.25, -0.25]]
    assert_close(gradient, tensor(expected))


def test_scores_multiply_the_group_softmax_by_the_probability_of_an_object():
    scores = GroupedSoftmaxScores([1, 100], bounds=[10])
    logits = torch.tensor([[0.0, math.log(3), 0.0, 0.0, math.log(4), 0.0]])
    assert_close(scores(logits), torch.tensor([[0.75 * 0.8, 0.5 * 0.8]]))
    alone = GroupedSoftmaxScores([1, 100], bounds=[10], background=False)
    assert_close(alone(logits[:, :4]), torch.tensor([[0.75, 0.5]]))
    assert (scores.num_logits(2), alone.num_logits(2)) == (6, 4)


def test_scores_follow_the_layout_of_images():
    logits, _ = batch(2, 3, 5)
    scores = GroupedSoftmaxScores(COUNTS)
    rows = scores(logits.movedim(1, -1).reshape(-1, 10))
    assert_close(scores(logits).movedim(1, -1).reshape(-1, 5), rows)


# ---- others


@pytest.mark.parametrize("ratio", [0, 1, 1.5, 3, 100])
def test_others_are_drawn_in_proportion_to_the_own_samples(ratio):
    criterion = GroupedSoftmaxLoss(COUNTS, others_ratio=ratio)
    logits, labels = batch(60)
    *groups, background = criterion.group_targets(logits, labels)
    for target, members in zip(groups, [[1, 3], [2, 4], [0]], strict=True):
        num_own = sum(int((labels == category).sum()) for category in members)
        num_others = int((labels != IGNORE).sum()) - num_own
        assert (target > 0).sum() == num_own > 0
        assert (target == 0).sum() == min(int(ratio * num_own), num_others)
    assert ((background == IGNORE) == (labels == IGNORE)).all()


def test_a_group_without_own_samples_draws_no_others():
    criterion = GroupedSoftmaxLoss(COUNTS, others_ratio=8)
    logits, labels = batch()
    labels[labels == 0] = 2
    assert (criterion.group_targets(logits, labels)[2] == IGNORE).all()


def test_draws_change_each_step_and_continue_from_a_checkpoint():
    logits, labels = batch(200)
    criterion = GroupedSoftmaxLoss(COUNTS, others_ratio=1)
    first, second = criterion(logits, labels), criterion(logits, labels)
    assert first != second
    restored = GroupedSoftmaxLoss(COUNTS, others_ratio=1)
    restored.load_state_dict(criterion.state_dict())
    torch.manual_seed(99)  # of no consequence
    assert restored(logits, labels) == criterion(logits, labels)
    assert GroupedSoftmaxLoss(COUNTS, others_ratio=1)(logits, labels) == first
    assert GroupedSoftmaxLoss(COUNTS, others_ratio=1, seed=5)(logits, labels) != first


def test_all_others_have_the_same_chance():
    criterion = GroupedSoftmaxLoss([1, 100], bounds=[10], others_ratio=2, background=False)
    labels = torch.tensor([0, 1, 1, 1, 1, 1, 1, 1, 1, IGNORE])
    drawn = sum((criterion.group_targets(torch.zeros(10, 4), labels)[0] == 0).double() for _ in range(1000)) / 1000
    # 2 of 8; the standard deviation is 0.014.
    assert_close(drawn, tensor([0, *[0.25] * 8, 0]), rtol=0, atol=0.06)


def test_evaluation_uses_all_others_and_leaves_the_state_alone():
    logits, labels = batch()
    criterion = GroupedSoftmaxLoss(COUNTS, others_ratio=1).eval()
    expected = GroupedSoftmaxLoss(COUNTS, others_ratio=None)(logits, labels)
    assert_close(criterion(logits, labels), expected)
    with torch.no_grad():
        assert_close(criterion.train()(logits, labels), expected.detach())
    assert criterion.uniform.num_calls == 0


# ---- what every loss promises


def test_sum_does_not_divide_and_a_normalizer_divides_the_sum():
    logits, labels = batch()
    summed = run(GroupedSoftmaxLoss(COUNTS, others_ratio=None, reduction="sum"), logits, labels)
    divided = run(GroupedSoftmaxLoss(COUNTS, others_ratio=None), logits, labels, normalizer=2.5)
    for a, b in zip(summed, divided, strict=True):
        assert_close(a / 2.5, b)
    # All groups have a sample here, so each of the four uses all counted samples.
    mean = GroupedSoftmaxLoss(COUNTS, others_ratio=None)(logits, labels)
    assert_close(summed[0] / (labels != IGNORE).sum(), mean.detach())


@pytest.mark.parametrize("kind", ["empty", "all_ignored"])
def test_a_batch_without_samples_gives_zero_that_backpropagates(kind):
    num_samples = 0 if kind == "empty" else 3
    logits = torch.randn(num_samples, 10, requires_grad=True)
    loss, gradient = run(GroupedSoftmaxLoss(COUNTS), logits, torch.full((num_samples,), IGNORE))
    assert loss == 0
    assert_close(gradient, torch.zeros(num_samples, 10))


def test_ignored_samples_have_no_part():
    logits, labels = batch()
    expected = run(GroupedSoftmaxLoss(COUNTS), logits, labels)
    garbage = logits.detach().clone()
    garbage[labels == IGNORE] = torch.nan
    assert_close(run(GroupedSoftmaxLoss(COUNTS), garbage.requires_grad_(), labels), expected)


def test_extreme_logits_stay_finite():
    logits, labels = batch(8)
    extreme = (logits.detach().float().sign() * 1e4).requires_grad_()
    loss, gradient = run(GroupedSoftmaxLoss(COUNTS), extreme, labels)
    assert loss.isfinite()
    assert gradient.isfinite().all()
    assert gradient.any()


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_images_equal_rows(layout):
    logits, labels = batch(2, 3, 5)
    rows = logits.detach().movedim(1, -1).reshape(-1, 10).requires_grad_()
    if layout == "channels_last":
        logits = logits.detach().to(memory_format=torch.channels_last).requires_grad_()
    loss, gradient = run(GroupedSoftmaxLoss(COUNTS, others_ratio=1), logits, labels)
    expected, expected_gradient = run(GroupedSoftmaxLoss(COUNTS, others_ratio=1), rows, labels.flatten())
    assert_close(loss, expected)
    assert_close(gradient.movedim(1, -1).reshape(-1, 10), expected_gradient)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(dtype):
    logits, labels = batch(dtype=dtype)
    loss, gradient = run(GroupedSoftmaxLoss(COUNTS), logits, labels)
    exact = logits.detach().double().requires_grad_()
    expected, expected_gradient = run(GroupedSoftmaxLoss(COUNTS), exact, labels)
    assert loss.dtype == torch.float32
    assert gradient.dtype == dtype
    assert_close(loss.double(), expected, rtol=1e-4, atol=1e-5)
    assert_close(gradient.double(), expected_gradient, rtol=2e-2, atol=1e-3)


def test_labels_without_background_need_no_option():
    logits, labels = batch(background=False)
    loss, gradient = run(GroupedSoftmaxLoss(COUNTS), logits, labels)
    assert loss.isfinite()
    assert (gradient[labels != IGNORE, -1] > 0).all()  # background is pushed down


def test_a_loss_survives_pickling_copying_and_half_precision():
    criterion = GroupedSoftmaxLoss(COUNTS)
    logits, labels = batch()
    others = [copy.deepcopy(criterion), pickle.loads(pickle.dumps(criterion)), nn.ModuleList([criterion]).half()[0]]
    expected = run(GroupedSoftmaxLoss(COUNTS), logits, labels)
    for other in others:
        assert_close(run(other, logits, labels), expected, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        (torch.zeros(2, 5), torch.tensor([0, 1]), r"logits must be \(N, 10\).*got \(2, 5\)"),
        (torch.zeros(2, 10), torch.tensor([0, 5]), "labels must be 0 ... 4"),
        (torch.zeros(2, 10), torch.tensor([0.0, 1.0]), "got torch.float32"),
    ],
)
def test_wrong_inputs_are_refused(logits, labels, message):
    with pytest.raises(ValueError, match=message):
        GroupedSoftmaxLoss(COUNTS)(logits, labels)


def test_background_is_refused_without_its_group():
    with pytest.raises(ValueError, match="got -1"):
        GroupedSoftmaxLoss(COUNTS, background=False)(torch.zeros(2, 8), torch.tensor([0, BACKGROUND]))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: GroupedSoftmaxLoss(COUNTS, bounds=(100, 10)), ValueError, "bounds must be finite and increasing"),
        (lambda: GroupedSoftmaxLoss(COUNTS, bounds=(10, math.nan)), ValueError, "bounds must be finite"),
        (lambda: GroupedSoftmaxLoss(COUNTS, others_ratio=-1), ValueError, "others_ratio"),
        (lambda: GroupedSoftmaxLoss([0, 0]), ValueError, "not be all 0"),
        (lambda: GroupedSoftmaxScores(COUNTS).num_logits(4), ValueError, "num_classes must be 5"),
    ],
)
def test_wrong_arguments_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_a_refused_call_does_not_use_up_random_numbers():
    logits, labels = batch()
    criterion = GroupedSoftmaxLoss(COUNTS)
    with pytest.raises(ValueError, match="normalizer must be finite and > 0"):
        criterion(logits, labels, normalizer=0.0)
    assert criterion.uniform.num_calls == 0
    assert torch.equal(criterion(logits, labels), GroupedSoftmaxLoss(COUNTS)(logits, labels))
