import math

import numpy as np
import pytest

from equigrad.sampling.arguments import checked_choice, checked_int, checked_threshold


@pytest.mark.parametrize("threshold", [1e-9, 0.5, 1])
def test_a_share_of_the_images_is_a_threshold(threshold):
    assert checked_threshold(threshold) == threshold


@pytest.mark.parametrize(
    ("threshold", "error"),
    [(0, ValueError), (1.5, ValueError), (math.nan, ValueError), (True, TypeError), ("0.1", TypeError)],
)
def test_anything_else_is_not(threshold, error):
    with pytest.raises(error, match="threshold must be"):
        checked_threshold(threshold)


def test_what_counts_as_an_integer_becomes_one():
    value = checked_int("seed", np.int16(3), minimum=0)
    assert type(value) is int
    assert value == 3


@pytest.mark.parametrize(
    ("value", "error"), [(-1, ValueError), (2**63, ValueError), (1.0, TypeError), (True, TypeError)]
)
def test_an_integer_is_checked_for_its_range(value, error):
    with pytest.raises(error, match="seed must be"):
        checked_int("seed", value, minimum=0)


def test_a_word_is_one_of_the_choices():
    assert checked_choice("rounding", "ceil", ("ceil", "floor")) == "ceil"
    with pytest.raises(ValueError, match="rounding must be one of 'ceil', 'floor', got 'round'"):
        checked_choice("rounding", "round", ("ceil", "floor"))
