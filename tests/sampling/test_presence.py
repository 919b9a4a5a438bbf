import json
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, strategies as st
from torch.testing import assert_close

from equigrad.sampling import (
    CategoryPresence,
    RepeatFactorSampler,
    category_repeat_factors,
    image_repeat_factors,
    suggest_threshold,
)

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "repeat_factor.json").read_text())

# Seven images in a tail: category 0 is in five, 1 in two, 2 in one; image 5 has two categories, image 6 none.
TAILED = [[0], [0], [0], [0], [1], [0, 2], []]

labels = st.lists(st.integers(0, 6), min_size=1, max_size=24)
image_lists = st.lists(st.lists(st.integers(0, 6), max_size=4), min_size=1, max_size=24)


class TestRepeatFactors:
    def test_equal_the_published_ones(self):
        factors = image_repeat_factors(GOLDEN["image_categories"], threshold=GOLDEN["hyper"]["t"])
        assert_close(factors, torch.tensor(GOLDEN["repeat_factors"], dtype=torch.float64), rtol=0, atol=1e-12)

    def test_of_a_hand_worked_case(self):
        # f = 5/7, 1/7, 1/7 and t = 4/7: sqrt(4/5) < 1, sqrt(4), sqrt(4).
        assert_close(category_repeat_factors(TAILED, threshold=4 / 7), torch.tensor([1.0, 2.0, 2.0]).double())
        expected = torch.tensor([1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 1.0]).double()
        assert_close(image_repeat_factors(TAILED, threshold=4 / 7), expected)

    def test_of_a_category_without_images_is_one(self):
        assert category_repeat_factors([0, 0, 2], threshold=1.0, num_classes=4)[[1, 3]].tolist() == [1.0, 1.0]

    @given(image_lists, st.floats(1e-4, 1))
    def test_are_the_formula(self, data, threshold):
        sets = [set(ids) for ids in data]
        for ids, factor in zip(sets, image_repeat_factors(data, threshold=threshold).tolist(), strict=True):
            shares = [sum(c in other for other in sets) / len(sets) for c in ids]
            assert math.isclose(factor, max([1.0, *(math.sqrt(threshold / share) for share in shares)]))

    def test_count_a_category_listed_twice_in_an_image_once(self):
        assert image_repeat_factors([[0, 0, 0], [1], [1]], threshold=1).tolist()[0] == pytest.approx(math.sqrt(3))

    @pytest.mark.parametrize(
        "data",
        [
            torch.tensor([0, 0, 1], dtype=torch.int32),
            (0, 0, 1),
            [[0], (0,), {1}],
            [torch.tensor([0]), torch.tensor([0]), torch.tensor([1])],
            [torch.tensor(0), 0, 1],
            [iter([0]), range(1), {1: "a mapping of ids"}],
            torch.tensor([0, 0, 1]).numpy(),
        ],
        ids=["tensor", "tuple of ints", "collections", "tensors", "scalars", "iterables", "numpy"],
    )
    def test_do_not_depend_on_how_the_categories_are_written(self, data):
        assert (
            image_repeat_factors(data, threshold=1).tolist()
            == image_repeat_factors([[0], [0], [1]], threshold=1).tolist()
        )

    def test_are_the_same_for_categories_read_once_and_reused(self):
        presence = CategoryPresence.of(TAILED, num_classes=5)
        assert category_repeat_factors(presence).tolist() == category_repeat_factors(TAILED, num_classes=5).tolist()


class TestSuggestedThreshold:
    def test_is_the_median_frequency_of_the_categories_that_occur(self):
        assert suggest_threshold([0, 0, 0, 0, 0, 1, 1, 1, 3, 3], num_classes=9) == pytest.approx(0.3)

    def test_makes_a_difference_where_the_default_does_nothing(self):
        data = [0] * 80 + [1] * 15 + [2] * 5
        assert image_repeat_factors(data).max() == 1
        assert image_repeat_factors(data, threshold=suggest_threshold(data)).max() > 1

    @given(labels, st.floats(0, 1))
    def test_is_always_a_threshold_the_sampler_takes(self, data, quantile):
        RepeatFactorSampler(data, threshold=suggest_threshold(data, quantile=quantile))

    def test_needs_categories(self):
        with pytest.raises(ValueError, match="got 2 images without any"):
            suggest_threshold([[], []])
        with pytest.raises(ValueError, match=r"quantile must be in \[0, 1\], got 2"):
            suggest_threshold([0], quantile=2)
