import numpy as np
import pytest

from equigrad.analysis.doctor.tail import Tail


def tail(counts, tested=None):
    counts = np.array(counts)
    return Tail(counts, counts, np.ones_like(counts) if tested is None else np.array(tested))


def test_the_imbalance_factor_leaves_categories_without_images_out():
    assert tail([300, 30, 3, 0]).imbalance == 100
    assert tail([300, 30, 3, 0]).num_seen == 3
    assert tail([0, 0]).imbalance == 1


def test_gini_is_zero_for_equal_counts_and_large_for_a_long_tail():
    assert tail([7, 7, 7]).gini == 0
    assert tail([1, 3]).gini == pytest.approx(0.25)  # half the mean difference 2 / 2, over the mean 2, by hand
    assert tail([1000, 1, 1, 1, 1]).gini > 0.79


def test_few_shot_categories_count_only_if_they_are_trained_and_tested():
    assert tail([200, 50, 5, 2, 0], tested=[1, 1, 1, 0, 1]).tested_few == 1 / 3


def test_the_text_has_groups_and_shares():
    text = str(tail([200, 50, 5, 0]))
    assert "4 categories, 200 to 5 images each, imbalance factor 40" in text
    assert "1 many-, 1 medium- and 1 few-shot by images (the few have 2.0 % of the images)" in text
