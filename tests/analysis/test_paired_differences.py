import numpy as np
import pytest

from equigrad.analysis.paired_differences import Quantity, paired_differences


def measured(gain=0.0, *, categories=40, seeds=3, methods=2, seed=0):
    """Accuracies of methods on categories of all kinds; the second one gains, everywhere about the same."""
    rng = np.random.default_rng(seed)
    hardness = rng.uniform(20, 90, categories)
    gains = rng.normal(0, 3, (methods, 1, categories)) + rng.normal(0, 1, (methods, seeds, 1))
    values = hardness + gains + rng.normal(0, 2, (methods, seeds, categories))
    values[1] += gain
    return values


def of_all(values):
    return paired_differences([Quantity(values, np.ones(values.shape[-1]))], np.zeros(values.shape[-1], dtype=int))


def test_a_large_gain_is_above_and_a_large_loss_below():
    assert of_all(measured(10)).is_above[:, 0].tolist() == [False, True]
    assert of_all(measured(-10)).is_below[:, 0].tolist() == [False, True]


def test_the_estimate_is_the_difference_of_the_weighted_means():
    values, weights = measured(3), np.arange(40.0)
    found = paired_differences([Quantity(values, weights)], np.arange(40) % 3)
    means = (values.mean(axis=1) * weights).sum(axis=1) / weights.sum()
    assert found.estimate[:, 0] == pytest.approx([0, means[1] - means[0]])


def test_what_makes_categories_hard_does_not_widen_the_interval():
    values = measured(1)
    harder = values + np.linspace(0, 1000, 40)
    assert of_all(harder).margin == pytest.approx(of_all(values).margin)


def test_equal_methods_hardly_ever_differ():
    wrong = 0
    for seed in range(100):
        found = of_all(measured(seed=seed, methods=5))
        wrong += bool((found.is_above | found.is_below)[1].any())
    assert wrong <= 10  # of 95 % intervals for four differences at once


def test_more_methods_have_wider_intervals():
    values = measured(methods=8)
    assert of_all(values).margin[1, 0] > of_all(values[:2]).margin[1, 0]


@pytest.mark.parametrize("shape", [{"seeds": 1}, {"categories": 4}])
def test_one_seed_and_few_categories_have_a_difference_without_an_interval(shape):
    found = of_all(measured(10, **shape))
    assert found.estimate[1, 0] == pytest.approx(10, abs=5)
    assert np.isnan(found.margin[1, 0])
    assert not found.is_above.any()


def test_a_group_without_categories_is_unknown_and_harms_no_other():
    values, absent = measured(10), np.full((2, 3, 40), np.nan)
    groups = np.arange(40) % 2
    empty = Quantity(values, np.zeros(40))
    found = paired_differences([Quantity(values, np.ones(40)), empty, Quantity(absent, np.ones(40))], groups)
    assert np.isnan(found.estimate[:, 1:]).all()
    assert found.is_above[1].tolist() == [True, False, False]


def test_categories_that_a_seed_does_not_know_are_left_out():
    values = measured(10)
    values[0, 1, :5] = np.nan
    assert of_all(values).estimate == pytest.approx(of_all(values[:, :, 5:]).estimate)
