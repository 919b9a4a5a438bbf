"""PAA: mixtures of losses, by hand and against plain loops."""

import math

import pytest
import torch
from hypothesis import given, strategies as st
from torch.testing import assert_close

from equigrad.labels import BACKGROUND
from equigrad.models.detection.assignment.max_iou import Assignment
from equigrad.models.detection.assignment.paa import PAAAssigner, count_good, fit_mixture
from models.detection_cases import anchors, objects


def rows(*values):
    """Rows (R, K), filled up with NaN."""
    longest = max(map(len, values))
    return torch.tensor([[*row, *[math.nan] * (longest - len(row))] for row in values], dtype=torch.float64)


def plain_fit(values):
    """Expectation maximisation for one list of numbers, in plain Python."""
    weights, means, variances, before = [0.5, 0.5], [min(values), max(values)], [1.0, 1.0], -math.inf

    def joint(value):
        return [
            math.log(w) - 0.5 * ((value - m) ** 2 / v + math.log(2 * math.pi * v))
            for w, m, v in zip(weights, means, variances, strict=True)
        ]

    def total(value):
        high = max(joint(value))
        return high + math.log(sum(math.exp(each - high) for each in joint(value)))

    for _ in range(100):
        shares = [[math.exp(each - total(value)) for each in joint(value)] for value in values]
        likelihood = sum(map(total, values)) / len(values)
        mass = [sum(share[c] for share in shares) + 1e-15 for c in (0, 1)]
        means = [sum(s[c] * x for s, x in zip(shares, values, strict=True)) / mass[c] for c in (0, 1)]
        variances = [
            sum(s[c] * (x - means[c]) ** 2 for s, x in zip(shares, values, strict=True)) / mass[c] + 1e-6
            for c in (0, 1)
        ]
        weights = [m / sum(mass) for m in mass]
        if abs(likelihood - before) < 1e-3:
            break
        before = likelihood
    return weights, means, variances, joint, total


def plain_count(values):
    *_, joint, total = plain_fit(values)
    good = [place for place, value in enumerate(values) if joint(value)[0] >= joint(value)[1]]
    highest = max((total(values[place]) for place in good), default=math.nan)
    return 1 + min(place for place in good if total(values[place]) >= highest - 1e-9) if good else len(values)


numbers = st.lists(st.floats(0.05, 6.0), min_size=2, max_size=12).map(sorted)


@given(st.lists(numbers, min_size=1, max_size=4))
def test_rows_are_fitted_as_if_each_were_alone(lists):
    mixture = fit_mixture(rows(*lists))
    for place, values in enumerate(lists):
        for found, expected in zip(mixture, plain_fit(values), strict=False):
            assert_close(found[place, :, 0].tolist(), list(expected), atol=1e-6, rtol=1e-6)


@given(
    st.lists(st.lists(st.floats(0.05, 6.0), min_size=2, max_size=9, unique=True).map(sorted), min_size=1, max_size=4)
)
def test_good_losses_agree_with_plain_loops(lists):
    expected = [plain_count(values) for values in lists]
    assert count_good(rows(*lists)).tolist() == expected


def test_two_clear_clusters_by_hand():
    values = [0.9, 1.0, 1.1, 8.9, 9.0, 9.1]
    mixture = fit_mixture(rows(values))
    assert_close(mixture.means.flatten().tolist(), [1.0, 9.0])
    assert_close(mixture.weights.flatten().tolist(), [0.5, 0.5])
    assert_close(mixture.variances.flatten().tolist(), [0.02 / 3 + 1e-6] * 2)
    # The likeliest of the good ones is the mean: 1.1 is beyond it, hence no positive.
    assert count_good(rows(values)).tolist() == [2]


def test_of_two_good_losses_at_equal_distances_from_their_mean_the_lower_one_ends_the_positives():
    assert count_good(rows([0.3, 0.7, 9.0, 9.4], [0.1, 0.8, 7.0, 7.1])).tolist() == [1, 1]


def test_one_loss_or_equal_losses_are_good():
    assert count_good(rows([0.7])).tolist() == [1]
    assert count_good(rows([0.7, 0.7, 0.7], [2.0])).tolist() == [1, 1]  # the likeliest of equals is the first


def test_positives_by_hand():
    assigner = PAAAssigner(num_candidates=2)
    # Two levels of 4 anchors. Object 0 has candidates 0, 1, 2 and 4, 5; object 1 has 6; 3 and 7 are background.
    matched = torch.tensor([0, 0, 0, -1, 0, 0, 1, -1])
    labels = torch.tensor([5, 6])
    candidates = Assignment(torch.where(matched >= 0, labels[matched], BACKGROUND), matched)
    losses = torch.tensor([9.0, 1.0, 1.2, 9.2, 1.1, 4.0])
    # Level 0 keeps 1 and 2, level 1 both: losses 1.0, 1.1, 1.2 and 9.2. The good ones end at their mean, 1.1.
    result = assigner(candidates, losses, [4, 4], labels)
    assert result.labels.tolist() == [BACKGROUND, 5, BACKGROUND, BACKGROUND, BACKGROUND, 5, 6, BACKGROUND]
    assert result.matched.tolist() == [-1, 0, -1, -1, -1, 0, 1, -1]


def plain_paa(matched, losses, level_sizes, num_candidates):
    loss_of = dict(zip([place for place, number in enumerate(matched) if number >= 0], losses, strict=True))
    result = [-1] * len(matched)
    for number in {number for number in matched if number >= 0}:
        start, kept = 0, []
        for size in level_sizes:
            mine = [place for place in range(start, start + size) if matched[place] == number]
            kept += sorted(mine, key=loss_of.get)[:num_candidates]
            start += size
        kept = sorted(sorted(kept), key=loss_of.get)
        for place in kept[: plain_count([loss_of[place] for place in kept])]:
            result[place] = number
    return result


@given(objects(), st.integers(1, 5), st.integers(0, 999))
def test_agrees_with_plain_loops(case, num_candidates, seed):
    boxes, labels = case
    assigner, levels = PAAAssigner(num_candidates), anchors()
    candidates = assigner.candidates(levels, boxes, labels)
    generator = torch.Generator().manual_seed(seed)
    losses = 0.2 + 3 * torch.rand(len(candidates.positives), generator=generator, dtype=torch.float64)
    result = assigner(candidates, losses, [len(level) for level in levels], labels)
    sizes = [len(level) for level in levels]
    assert result.matched.tolist() == plain_paa(candidates.matched.tolist(), losses.tolist(), sizes, num_candidates)
    assert set(result.matched.tolist()) == set(candidates.matched.tolist()) | {-1}  # no object loses all of its anchors
    assert result.labels[result.positives].tolist() == labels[result.matched[result.positives]].tolist()


def test_candidates_overlap_by_a_tenth_and_nothing_is_ignored():
    boxes = torch.tensor([[0.0, 0, 10, 10]])
    level = torch.tensor([[0.0, 0, 1, 10], [0, 0, 0.9, 10], [20, 20, 30, 30]])
    candidates = PAAAssigner().candidates([level], boxes, torch.tensor([4]))
    assert candidates.labels.tolist() == [4, BACKGROUND, BACKGROUND]


def test_an_image_without_objects_is_background():
    assigner, nothing = PAAAssigner(), torch.empty(0, dtype=torch.int64)
    candidates = assigner.candidates(anchors(), torch.empty(0, 4), nothing)
    result = assigner(candidates, torch.empty(0), [len(level) for level in anchors()], nothing)
    assert result.labels.eq(BACKGROUND).all()


def test_a_loss_is_needed_for_every_candidate():
    candidates = Assignment(torch.tensor([1, 1]), torch.tensor([0, 0]))
    with pytest.raises(ValueError, match=r"losses must be \(2,\), one for each candidate, got \(3,\)"):
        PAAAssigner()(candidates, torch.zeros(3), [2], torch.tensor([1]))
    with pytest.raises(ValueError, match="num_candidates must be at least 1, got 0"):
        PAAAssigner(0)
