"""How far methods differ from a baseline on the same test set, with intervals.

All methods predict the same test samples with the same seeds, so that categories and seeds are paired: what makes a
category hard, or a seed lucky, cancels in the difference. Categories are drawn again within their group and seeds among
all (a bootstrap of both), so that an interval has the scatter of both.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CONFIDENCE = 0.95
MIN_CATEGORIES = 5  # fewer say too little about their scatter
_NUM_DRAWS = 4000


@dataclass(frozen=True, eq=False)
class Quantity:
    """A weighted mean over categories that methods are compared in.

    Args:
        values: (M, S, C) of each method, seed and category; nan where the test set has none.
        weights: (C,), 0 for categories that are not in it.
    """

    values: Floats
    weights: Floats


@dataclass(frozen=True, eq=False)
class Differences:
    """Differences of methods from the baseline in K quantities, in the unit of the values.

    Args:
        estimate: (M, K); nan for a quantity without categories.
        margin: (M, K) half the width of the interval; nan with one seed or too few categories, which show no scatter.
    """

    estimate: Floats
    margin: Floats

    @property
    def is_above(self) -> NDArray[np.bool_]:
        """(M, K) whether the whole interval is above 0."""
        above: NDArray[np.bool_] = self.estimate - self.margin > 0
        return above

    @property
    def is_below(self) -> NDArray[np.bool_]:
        """(M, K) whether the whole interval is below 0."""
        below: NDArray[np.bool_] = self.estimate + self.margin < 0
        return below


def paired_differences(quantities: Sequence[Quantity], groups: Ints, baseline: int = 0) -> Differences:
    """Differences from a baseline, with intervals that hold for all methods and quantities at once.

    At once, because the best of many methods would otherwise look better than the baseline by chance: all intervals
    are widened by one factor, so that in 95 % of the resamples none of the differences leaves its interval.

    Args:
        quantities: what to compare, of the same methods and seeds.
        groups: (C,) the group of each category, in which categories are drawn.
        baseline: index of the method that the others are compared with.
    """
    num_methods, num_seeds, _ = quantities[0].values.shape
    rng = np.random.default_rng(0)
    categories, seeds = _category_draws(groups, rng), _seed_draws(num_seeds, rng)
    estimate = np.full((num_methods, len(quantities)), np.nan)
    drawn = np.full((_NUM_DRAWS, num_methods, len(quantities)), np.nan)
    for index, quantity in enumerate(quantities):
        difference = quantity.values - quantity.values[baseline]
        weights = np.where(np.isfinite(difference).all(axis=(0, 1)), quantity.weights, 0)
        num_categories = np.count_nonzero(weights)
        if num_categories == 0:
            continue
        difference = np.nan_to_num(difference)
        estimate[:, index] = (difference.mean(axis=1) @ weights) / weights.sum()
        if num_categories >= MIN_CATEGORIES and num_seeds > 1:
            means = _drawn_means(difference, categories * weights, seeds)
            # A bootstrap of n categories has (n - 1) / n of their variance.
            widening = np.sqrt(num_categories / (num_categories - 1))
            drawn[:, :, index] = widening * (means - estimate[:, index])
    return Differences(estimate, _margins(drawn))


def _category_draws(groups: Ints, rng: np.random.Generator) -> Floats:
    """How often each category is in each draw, (B, C); each group keeps its size."""
    draws = np.zeros((_NUM_DRAWS, len(groups)))
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        draws[:, members] = rng.multinomial(len(members), np.full(len(members), 1 / len(members)), size=_NUM_DRAWS)
    return draws


def _seed_draws(num_seeds: int, rng: np.random.Generator) -> Floats:
    """The weight of each seed in each draw, (B, S)."""
    return rng.multinomial(num_seeds, np.full(num_seeds, 1 / num_seeds), size=_NUM_DRAWS) / num_seeds


def _drawn_means(difference: Floats, weights: Floats, seeds: Floats) -> Floats:
    """Weighted means of differences (M, S, C) in each draw, (B, M), for weights (B, C) and seeds (B, S)."""
    sums = np.einsum("bc,msc->bms", weights, difference, optimize=True)
    totals = weights.sum(axis=1)
    means: Floats = np.einsum("bms,bs->bm", sums, seeds) / np.where(totals > 0, totals, 1)[:, None]
    return means


def _margins(drawn: Floats) -> Floats:
    """Half the widths of intervals that hold together, (M, K), from deviations (B, M, K)."""
    errors: Floats = drawn.std(axis=0)
    scattered = errors > 0  # not the baseline itself, equal methods and missing intervals
    if not scattered.any():
        return errors
    largest = np.abs(drawn[:, scattered] / errors[scattered]).max(axis=1)
    factor = np.quantile(largest, CONFIDENCE)
    margins: Floats = factor * errors
    return margins
