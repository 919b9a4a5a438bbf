"""Scores built from settings, against values worked out by hand."""

import inspect
from typing import get_args

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from equigrad.calibration import AdjustedScores
from equigrad.tasks import scores
from equigrad.tasks.losses import CategoryCounts
from equigrad.tasks.scores import ClassifierScores, RoIScores

# Images and instances disagree on which category is rare, so that the wrong count shows.
COUNTS = CategoryCounts(np.array([8, 2]), np.array([5, 500]))
LOG2, LOG3 = float(np.log(2)), float(np.log(3))

CASES = [
    (scores.Softmax(), [LOG3, 0.0], [3 / 4, 1 / 4]),
    # A prior of 0.8 and 0.2 is taken away: odds of 3 become odds of 3 / 4.
    (scores.AdjustedSoftmax(), [LOG3, 0.0], [3 / 7, 4 / 7]),
    (scores.AdjustedSoftmax(strength=0.5), [LOG3, 0.0], [3 / 5, 2 / 5]),
    (scores.AdjustedSoftmax(strength=0.0), [LOG3, 0.0], [3 / 4, 1 / 4]),
    (scores.Sigmoid(), [LOG3, 0.0], [3 / 4, 1 / 2]),
    (scores.SigmoidObjectness(), [LOG3, 0.0, LOG2], [3 / 4 * 2 / 3, 1 / 2 * 2 / 3]),
    (scores.SoftmaxObjectness(), [LOG3, 0.0, LOG2], [3 / 4 * 2 / 3, 1 / 4 * 2 / 3]),
    # Object and background: a softmax of two columns.
    (scores.SoftmaxObjectness(two_way=True), [LOG3, 0.0, 1 + LOG2, 1.0], [3 / 4 * 2 / 3, 1 / 4 * 2 / 3]),
    (scores.SoftmaxBackground(), [LOG3, 0.0, 0.0], [3 / 5, 1 / 5]),
    # Divided by 8 and 2 images: 3 / 8, 1 / 2 and a background of 1.
    (scores.NorCal(power=1.0), [LOG3, 0.0, 0.0], [3 / 15, 4 / 15]),
    (scores.NorCal(power=0.0), [LOG3, 0.0, 0.0], [3 / 5, 1 / 5]),
    # Columns: below 10 instances (one category and "others"), 100 to 999 (the same), background ("others" first).
    (scores.GroupedSoftmaxProduct(), None, [3 / 4 * 2 / 3, 1 / 2 * 2 / 3]),
]


def grouped_logits(built):
    """Logits with probabilities of 3/4 and 1/2 in the groups of the categories and 2/3 of an object."""
    layout = built.layout
    logits = torch.zeros(1, layout.num_logits)
    logits[0, layout.column[0]] = LOG3
    logits[0, layout.num_logits - 2] = LOG2
    return logits


@pytest.mark.parametrize(("settings", "logits", "expected"), CASES)
def test_built_scores_have_known_values(settings, logits, expected):
    built = settings.build(COUNTS)
    given = grouped_logits(built) if logits is None else torch.tensor([logits])
    assert given.shape[1] == built.num_logits(COUNTS.num_classes)
    assert_close(built(given), torch.tensor([expected]))


def test_every_reading_that_a_method_may_have_is_tested_here():
    offered = {*get_args(ClassifierScores), *get_args(RoIScores)}
    assert {type(settings) for settings, *_ in CASES} == offered


def test_groups_are_made_by_instances():
    # 5 and 500 instances lie in two groups; 8 and 2 images would lie in one.
    assert scores.GroupedSoftmaxProduct().build(COUNTS).layout.group.tolist() == [0, 1]


def test_the_default_strength_of_logit_adjustment_is_the_published_one():
    default = inspect.signature(AdjustedScores).parameters["strength"].default
    assert scores.AdjustedSoftmax().strength == default == 1.0


def test_scores_for_other_categories_than_counted_are_refused():
    for settings in (scores.AdjustedSoftmax(), scores.NorCal(), scores.GroupedSoftmaxProduct()):
        with pytest.raises(ValueError, match=r"\(3,\)|must be 2"):
            settings.build(COUNTS).num_logits(3)
