"""Checks that every loss shares; what a user sees of them is in the tests of the losses."""

import math

import pytest
import torch

from equigrad import BACKGROUND, IGNORE
from equigrad.losses import inputs

LOGITS = torch.zeros(3, 4)


def test_labels_without_ignored_samples_are_returned_themselves():
    labels = torch.tensor([0, 3, 2])
    for ignore_index in (IGNORE, 255):
        assert inputs.check_labels(LOGITS, labels, background=False, ignore_index=ignore_index)[0] is labels


def test_another_ignore_index_becomes_ignore_in_a_copy():
    labels = torch.tensor([0, 255, BACKGROUND])
    checked, least = inputs.check_labels(LOGITS, labels, background=True, ignore_index=255)
    assert least == IGNORE
    assert checked.tolist() == [0, IGNORE, BACKGROUND]
    assert labels.tolist() == [0, 255, BACKGROUND]


@pytest.mark.parametrize("labels", [[0, 3, 2], [1, BACKGROUND, 2], [IGNORE, BACKGROUND, 2], [3, 3, 3]])
def test_the_least_label_is_returned_too(labels):
    assert inputs.check_labels(LOGITS, torch.tensor(labels), background=True)[1] == min(labels)


@pytest.mark.parametrize("kind", ["multi_label", "soft"])
def test_a_number_for_each_logit_is_taken_where_it_means_something(kind):
    assert inputs.check_labels(LOGITS, LOGITS, background=False, **{kind: True})[0] is LOGITS
    with pytest.raises(ValueError, match=r"labels must be int64 of shape \(3,\) for"):
        inputs.check_labels(LOGITS, LOGITS, background=False)


def test_bool_targets_are_multi_label_but_no_probabilities():
    targets = LOGITS.bool()
    assert inputs.check_labels(LOGITS, targets, background=True, multi_label=True)[0] is targets
    with pytest.raises(ValueError, match=r"or soft labels, floating, of shape \(3, 4\)"):
        inputs.check_labels(LOGITS, targets, background=False, soft=True)


def test_a_normalizer_that_needs_no_conversion_is_returned_itself():
    normalizer = torch.tensor(3.0, dtype=torch.float64)
    labels = torch.tensor([0, 1, IGNORE])
    assert inputs.divisor_of(LOGITS, labels, "mean", normalizer) is normalizer
    assert inputs.divisor_of(LOGITS, labels, "mean", torch.tensor([3])).dtype == torch.float64


@pytest.mark.parametrize(("reduction", "expected"), [("mean", 2.0), ("sum", None)])
def test_without_a_normalizer_the_reduction_decides(reduction, expected):
    divisor = inputs.divisor_of(LOGITS, torch.tensor([0, BACKGROUND, IGNORE]), reduction, None)
    assert divisor == expected


def test_every_sample_with_a_number_for_each_logit_counts():
    assert inputs.divisor_of(torch.zeros(3, 4, 5), torch.zeros(3, 4, 5), "mean", None) == 15


def test_one_value_for_each_sample_is_none_of_the_fused_reductions():
    with pytest.raises(ValueError, match='reduction must be "mean" or "sum" here'):
        inputs.divisor_of(LOGITS, torch.tensor([0, 1, 2]), "none", None)


@pytest.mark.parametrize("normalizer", ["3", True, [3.0]])
def test_a_normalizer_that_is_no_number_is_a_type_error(normalizer):
    with pytest.raises(TypeError, match="normalizer must be a number"):
        inputs.divisor_of(LOGITS, torch.tensor([0, 1, 2]), "mean", normalizer)


@pytest.mark.parametrize(("values", "expected"), [([5, 0, 2], [5.0, 1.0, 2.0]), ([0.5, 0.0, 0.2], [0.5, 0.2, 0.2])])
def test_a_category_without_samples_counts_as_one_or_as_the_rarest_share(values, expected):
    assert inputs.at_least_one_sample(torch.tensor(values, dtype=torch.float64)).tolist() == expected


@pytest.mark.parametrize("values", [[1.0, math.nan], [-1.0, 1.0], [0.0, 0.0], [], [[1.0]]])
def test_numbers_for_the_categories_are_finite_and_not_negative(values):
    with pytest.raises(ValueError, match="counts must"):
        inputs.per_category("counts", values)


@pytest.mark.parametrize("shape", [(1, 1), (4, 1), (3, 4)])
def test_what_categories_have_is_no_matrix(shape):
    with pytest.raises(ValueError, match=r"must be one number or \(C,\) of them, got \("):
        inputs.check_logits(LOGITS, 1.0, torch.ones(shape))


@pytest.mark.parametrize("num_rows", [0, 3])
def test_logits_without_categories_are_refused(num_rows):
    with pytest.raises(ValueError, match=r"logits must be \(N, C\) or \(N, C, d1, ...\), got \(\d, 0\)"):
        inputs.check_logits(torch.zeros(num_rows, 0))
