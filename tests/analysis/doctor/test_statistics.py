import numpy as np

from equigrad.analysis.doctor.statistics import Gathered, statistics_findings
from equigrad.analysis.snapshots import StatisticsOverTime


def gathered(positive, negative, **known):
    positive, negative = np.atleast_2d(np.array(positive, float)), np.atleast_2d(np.array(negative, float))
    return Gathered(StatisticsOverTime(10 * np.arange(len(positive)), positive, negative), **known)


def names(*arguments, **known):
    return [finding.name for finding in statistics_findings(gathered(*arguments, **known))]


def test_sums_of_zero_are_a_loss_that_was_never_trained():
    assert names([0, 0], [0, 0]) == ["statistics_untouched"]


def test_a_single_snapshot_says_nothing_about_movement():
    assert names([3, 2], [3, 2]) == []


def test_statistics_that_stop_are_named_with_the_step():
    (finding,) = statistics_findings(gathered([[0, 0], [2, 2], [2, 2], [2, 2]], [[0, 0], [2, 2], [2, 2], [2, 2]]))
    assert finding.name == "statistics_still"
    assert finding.evidence == "the same sums from step 10 to step 30"


def test_a_ratio_that_rises_is_not_stuck():
    negative = [[10, 10], [20, 20], [30, 30]]
    assert names([[0, 0], [0.2, 0.2], [0.3, 0.3]], negative) == ["ratio_stuck"]
    assert names([[0, 0], [0.2, 0.2], [1.2, 1.2]], negative) == []


def test_categories_without_positive_gradient_are_named():
    (finding,) = statistics_findings(gathered([3, 0], [3, 2], names=["cat", "dog"]))
    assert (finding.name, finding.evidence) == ("never_seen", "no positive gradient: dog")


def test_more_gradient_than_the_steps_can_give_is_a_validation():
    too_much, possible = [[0, 0], [6, 4.5]], [[0, 0], [6, 3.9]]  # in 10 steps
    assert names(too_much, too_much, largest_positive=1.0) == ["statistics_polluted"]
    assert names(possible, possible, largest_positive=1.0) == []


def test_a_snapshot_after_the_last_step_is_a_validation():
    sums = [[1, 1], [2, 2]]
    assert names(sums, sums, num_steps=5) == ["statistics_polluted"]
    assert names(sums, sums, num_steps=10) == []


def test_skipped_batches_are_counted():
    (finding,) = statistics_findings(gathered([3, 2], [3, 2], num_skipped=4))
    assert (finding.name, finding.evidence) == ("batches_skipped", "4 batches")
