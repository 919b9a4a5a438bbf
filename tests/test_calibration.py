import json
import math
import pickle
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.testing import assert_close

from equigrad.calibration import (
    AdjustedScores,
    NorCalScores,
    adjust_logits,
    norcal,
    norcal_detections,
    norcal_results,
)

GOLDEN = json.loads((Path(__file__).parent / "golden" / "norcal.json").read_text())
COUNTS = GOLDEN["image_counts"]
POWER = GOLDEN["hyper"]["gamma"]

few_examples = settings(max_examples=50)  # a busy machine is no failure
counts_of_four = st.lists(st.integers(0, 10**6), min_size=4, max_size=4).filter(any)
seeds = st.integers(0, 2**16)


class SigmoidScores:
    """A head's own scores, with one more column (objectness) when asked."""

    def __init__(self, num_extra=0):
        self.num_extra = num_extra

    def num_logits(self, num_classes):
        return num_classes + self.num_extra

    def __call__(self, logits):
        probs = logits.sigmoid()
        return probs[:, :-1] * probs[:, -1:] if self.num_extra else probs


def random_logits(*shape, seed=0):
    return 3 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def logits():
    return torch.tensor(GOLDEN["logits"], dtype=torch.float64)


# --- norcal ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("renormalize", [True, False])
@pytest.mark.parametrize(("form", "key"), [("exp", "exps"), ("probability", "probs")])
def test_norcal_gives_the_published_scores(logits, form, key, renormalize):
    values = logits if form == "exp" else logits.softmax(dim=1)
    expected = torch.tensor(GOLDEN["results"][f"{key}_renorm_{renormalize}"], dtype=torch.float64)
    scores = norcal(values, COUNTS, power=POWER, form=form, renormalize=renormalize)
    assert_close(scores, expected, rtol=1e-9, atol=0)


def test_norcal_by_hand():
    scores = norcal(torch.tensor([[0.0, 0.0, 0.0]]), [4, 16], power=0.5)  # weights 1/2, 1/4 and 1 for the background
    assert_close(scores, torch.tensor([[2.0, 1.0, 4.0]]) / 7)


def test_norcal_without_background_divides_every_column():
    scores = norcal(torch.zeros(1, 2), [1, 3], power=1.0, background=False)
    assert_close(scores, torch.tensor([[0.75, 0.25]]))


@few_examples
@given(counts_of_four, seeds)
def test_norcal_without_power_is_the_softmax(counts, seed):
    logits = random_logits(3, 5, seed=seed)
    assert_close(norcal(logits, counts, power=0.0), logits.softmax(dim=1))


@few_examples
@given(counts_of_four, st.floats(0, 3), seeds)
def test_norcal_gives_a_distribution_that_favours_rare_categories(counts, power, seed):
    logits = random_logits(3, 5, seed=seed)
    scores = norcal(logits, counts, power=power)
    assert_close(scores.sum(dim=1), torch.ones(3, dtype=torch.float64))
    gain = scores.log() - logits.log_softmax(dim=1)
    by_count = gain[:, torch.tensor(counts).argsort(descending=True)]
    assert (by_count.diff(dim=1) >= -1e-9).all()


@few_examples
@given(seeds, st.floats(0.1, 2))
def test_norcal_is_the_same_from_logits_and_from_probabilities(seed, power):
    logits = random_logits(3, 5, seed=seed)
    from_probs = norcal(logits.softmax(dim=1), [5, 4, 3, 0], power=power, form="probability")
    assert_close(norcal(logits, [5, 4, 3, 0], power=power), from_probs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_norcal_is_finite_for_huge_logits(dtype):
    logits = torch.tensor([[1e4, -1e4, 0.0], [-1e4, -1e4, -1e4], [1e4, 1e4, 1e4]], dtype=dtype)
    scores = norcal(logits, [1, 1000], power=1.0)
    assert scores.isfinite().all()
    assert_close(scores[1], scores[2])
    assert_close(scores[0], torch.tensor([1.0, 0.0, 0.0], dtype=dtype))


def test_norcal_keeps_rows_of_zero_probability_finite():
    assert norcal(torch.zeros(2, 3), [1, 1000], power=1.0, form="probability").isfinite().all()


def test_norcal_in_half_precision_is_the_rounded_result(logits):
    half = logits.half()
    scores = norcal(half, COUNTS, power=POWER)
    assert scores.dtype == torch.float16
    assert torch.equal(scores, norcal(half.float(), COUNTS, power=POWER).half())


def test_a_category_without_prior_counts_as_the_rarest_one_that_has_some():
    logits = random_logits(3, 4)
    assert_close(norcal(logits, [9.0, 0.0, 0.3], power=0.7), norcal(logits, [9.0, 0.3, 0.3], power=0.7))


def test_the_unit_of_the_norcal_prior_moves_only_the_background():
    logits = random_logits(3, 4)
    counts = torch.tensor([9.0, 5.0, 1.0])
    shifted = logits + torch.tensor([0.0, 0.0, 0.0, 0.5]) * torch.tensor(10.0).log()
    assert_close(norcal(logits, 10 * counts, power=0.5), norcal(shifted, counts, power=0.5))


def test_norcal_refuses_logits_passed_off_as_probabilities(logits):
    with pytest.raises(ValueError, match="expects probabilities"):
        norcal(logits, COUNTS, power=POWER, form="probability")
    with pytest.raises(ValueError, match="form must be"):
        norcal(logits, COUNTS, power=POWER, form="logit")


# --- logit adjustment -----------------------------------------------------------------------------------------------


def test_logit_adjustment_by_hand():
    adjusted = adjust_logits(torch.tensor([[1.0, 1.0]], dtype=torch.float64), [3, 1], strength=2.0)
    assert_close(adjusted, 1 - torch.tensor([[0.75, 0.25]], dtype=torch.float64).square().log())


@few_examples
@given(counts_of_four, st.floats(1e-3, 1e3), st.floats(0, 2), seeds)
def test_the_unit_of_the_adjustment_prior_does_not_matter(counts, unit, strength, seed):
    logits = random_logits(3, 4, seed=seed)
    scaled = [unit * count for count in counts]
    assert_close(adjust_logits(logits, scaled, strength=strength), adjust_logits(logits, counts, strength=strength))


def test_adjustment_makes_samples_of_a_skewed_model_balanced():
    likelihood = random_logits(6, 3).log_softmax(dim=1)
    prior = torch.tensor([0.9, 0.09, 0.01], dtype=torch.float64)
    posterior = (likelihood + prior.log()).log_softmax(dim=1)
    assert_close(adjust_logits(posterior, prior).softmax(dim=1), likelihood.softmax(dim=1))


def test_a_category_without_prior_gains_the_published_floor():
    adjusted = adjust_logits(torch.zeros(1, 2, dtype=torch.float64), [5, 0])
    assert_close(adjusted, torch.tensor([[0.0, 12.0]], dtype=torch.float64) * math.log(10))


# --- both -----------------------------------------------------------------------------------------------------------


def apply_norcal(logits, prior):
    return norcal(logits, prior, power=0.6, background=False)


@pytest.mark.parametrize("calibrate", [apply_norcal, adjust_logits])
def test_maps_are_calibrated_position_by_position(calibrate):
    maps = random_logits(2, 4, 3, 5)
    pixels = maps.permute(0, 2, 3, 1).reshape(-1, 4)
    expected = calibrate(pixels, [7, 5, 1, 0]).reshape(2, 3, 5, 4).permute(0, 3, 1, 2)
    assert_close(calibrate(maps, [7, 5, 1, 0]), expected)


@pytest.mark.parametrize("calibrate", [apply_norcal, adjust_logits])
def test_the_prior_may_be_a_sequence_or_a_tensor_of_any_dtype(calibrate):
    logits = random_logits(2, 3).float()
    expected = calibrate(logits, (200, 30, 4))
    assert expected.dtype == torch.float32
    for prior in (
        torch.tensor([200, 30, 4]),
        torch.tensor([200.0, 30.0, 4.0], dtype=torch.float64, requires_grad=True),
    ):
        result = calibrate(logits, prior)
        assert torch.equal(result, expected)
        assert not result.requires_grad


@pytest.mark.parametrize("calibrate", [apply_norcal, adjust_logits])
@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ([0.0, 0.0, 0.0], "above 0"),
        ([1.0, float("nan"), 1.0], "finite"),
        ([1.0, float("inf"), 1.0], "finite"),
        ([1.0, -1.0, 1.0], "not negative"),
        ([1.0, 1.0], r"must be \(3,\).*got \(2,\)"),
        ([[1.0, 1.0, 1.0]], r"got \(1, 3\)"),
    ],
)
def test_refuses_a_prior_that_is_none(calibrate, prior, message):
    with pytest.raises(ValueError, match=message):
        calibrate(torch.zeros(2, 3), prior)


@pytest.mark.parametrize("calibrate", [apply_norcal, adjust_logits])
@pytest.mark.parametrize("logits", [torch.zeros(3), torch.zeros(2, 3, dtype=torch.int64)])
def test_refuses_logits_of_the_wrong_shape_or_dtype(calibrate, logits):
    with pytest.raises(ValueError, match="must be floating point"):
        calibrate(logits, [1, 2, 3])


@pytest.mark.parametrize("value", [-0.5, float("nan"), float("inf")])
def test_refuses_a_power_or_strength_that_is_negative_or_not_finite(value):
    with pytest.raises(ValueError, match="power must be"):
        norcal(torch.zeros(2, 4), [1, 2, 3], power=value)
    with pytest.raises(ValueError, match="power must be"):
        NorCalScores([1, 2, 3], power=value)
    with pytest.raises(ValueError, match="power must be"):
        norcal_detections(torch.zeros(1), torch.zeros(1, dtype=torch.int64), [1, 2, 3], power=value)
    with pytest.raises(ValueError, match="strength must be"):
        adjust_logits(torch.zeros(2, 3), [1, 2, 3], strength=value)
    with pytest.raises(ValueError, match="strength must be"):
        AdjustedScores(SigmoidScores(), [1, 2, 3], strength=value)


# --- score objects --------------------------------------------------------------------------------------------------


def test_norcal_scores_are_the_calibrated_foreground(logits):
    scores = NorCalScores(COUNTS, power=POWER)
    assert scores.num_logits(8) == 9
    assert_close(scores(logits), norcal(logits, COUNTS, power=POWER)[:, :8])


def test_adjusted_scores_leave_further_columns_to_the_scores_inside():
    logits = random_logits(3, 5)
    scores = AdjustedScores(SigmoidScores(num_extra=1), [9, 3, 1, 0], strength=0.5)
    adjusted = adjust_logits(logits[:, :4], [9, 3, 1, 0], strength=0.5)
    assert scores.num_logits(4) == 5
    assert_close(scores(logits), adjusted.sigmoid() * logits[:, 4:].sigmoid())


@pytest.mark.parametrize(
    "scores", [NorCalScores([9, 3, 1, 0], power=0.6), AdjustedScores(SigmoidScores(1), [9, 3, 1, 0])]
)
def test_score_objects_calibrate_maps_position_by_position(scores):
    maps = random_logits(2, 5, 3, 6)
    pixels = maps.permute(0, 2, 3, 1).reshape(-1, 5)
    assert_close(scores(maps), scores(pixels).reshape(2, 3, 6, 4).permute(0, 3, 1, 2))


def test_adjusted_scores_without_further_columns():
    logits = random_logits(3, 4)
    scores = AdjustedScores(SigmoidScores(), [9, 3, 1, 0])
    assert scores.num_logits(4) == 4
    assert_close(scores(logits), adjust_logits(logits, [9, 3, 1, 0]).sigmoid())


@pytest.mark.parametrize(
    "make", [lambda prior: NorCalScores(prior, power=0.6), lambda prior: AdjustedScores(SigmoidScores(1), prior)]
)
def test_score_objects_survive_pickling_and_keep_the_prior_they_were_given(make):
    prior = torch.tensor([9.0, 3.0, 1.0, 0.0], dtype=torch.float64)
    logits = random_logits(3, 5)
    scores = make(prior)
    expected = scores(logits)
    prior.fill_(1.0)  # statistics go on changing when training goes on
    assert torch.equal(scores(logits), expected)
    assert torch.equal(pickle.loads(pickle.dumps(scores))(logits), expected)


@pytest.mark.parametrize("scores", [NorCalScores([3, 2, 1], power=0.6), AdjustedScores(SigmoidScores(), [3, 2, 1])])
def test_score_objects_refuse_a_head_with_other_categories(scores):
    with pytest.raises(ValueError, match=r"prior must be \(4,\)"):
        scores.num_logits(4)
    with pytest.raises(ValueError, match=r"logits must have [34] columns, got \(2, 2\)"):
        scores(torch.zeros(2, 2))


# --- saved detections -----------------------------------------------------------------------------------------------


def test_detections_are_divided_by_a_power_of_their_frequency_relative_to_the_rarest():
    scores = norcal_detections(torch.tensor([0.8, 0.8, 0.4]), torch.tensor([0, 1, 2]), [16, 4, 0], power=0.5)
    assert_close(scores, torch.tensor([0.4, 0.8, 0.4]))


detections = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3)), max_size=20)


@few_examples
@given(detections, counts_of_four, st.floats(0, 3))
def test_detections_keep_their_range_and_their_order_within_a_category(detections, counts, power):
    scores = torch.tensor([score for score, _ in detections], dtype=torch.float64)
    labels = torch.tensor([label for _, label in detections], dtype=torch.int64)
    calibrated = norcal_detections(scores, labels, counts, power=power)
    assert ((calibrated >= 0) & (calibrated <= 1)).all()
    for category in range(4):
        order = scores[labels == category].argsort()
        assert (calibrated[labels == category][order].diff() >= 0).all()


@few_examples
@given(detections, st.floats(0, 3), st.integers(0, 20))
def test_detections_of_one_image_do_not_depend_on_other_images(detections, power, cut):
    scores = torch.tensor([score for score, _ in detections], dtype=torch.float64)
    labels = torch.tensor([label for _, label in detections], dtype=torch.int64)
    together = norcal_detections(scores, labels, [50, 20, 3, 1], power=power)
    apart = [
        norcal_detections(s, y, [50, 20, 3, 1], power=power)
        for s, y in [(scores[:cut], labels[:cut]), (scores[cut:], labels[cut:])]
    ]
    assert torch.equal(together, torch.cat(apart))


def test_detections_refuse_labels_that_do_not_fit():
    with pytest.raises(ValueError, match=r"labels must be in 0 \.\.\. 2"):
        norcal_detections(torch.ones(2), torch.tensor([0, 3]), [1, 2, 3], power=1.0)
    with pytest.raises(ValueError, match=r"got -1 \.\.\. 0"):
        norcal_detections(torch.ones(2), torch.tensor([0, -1]), [1, 2, 3], power=1.0)
    with pytest.raises(ValueError, match=r"labels must be \(2,\)"):
        norcal_detections(torch.ones(2), torch.tensor([0]), [1, 2, 3], power=1.0)


def test_results_in_the_standard_format_change_only_in_their_scores():
    results = [
        {"image_id": 3, "category_id": 7, "bbox": [0.0, 0.0, 4.0, 4.0], "score": 0.8},
        {"image_id": 3, "category_id": 1, "bbox": [1.0, 0.0, 4.0, 4.0], "score": 0.5},
    ]
    original = json.dumps(results)
    calibrated = norcal_results(results, {1: 4, 7: 16}, power=0.5)
    assert json.dumps(results) == original
    assert [result.pop("score") for result in calibrated] == pytest.approx([0.4, 0.5])
    assert calibrated == [{k: v for k, v in result.items() if k != "score"} for result in results]
    assert norcal_results([], {1: 4, 7: 16}, power=0.5) == []


def test_results_of_an_unknown_category_are_refused():
    with pytest.raises(ValueError, match=r"missing \[9\]"):
        norcal_results([{"category_id": 9, "score": 0.5}], {1: 4}, power=0.5)
