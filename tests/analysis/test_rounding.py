import math

import pytest

from equigrad.analysis.rounding import changes, number, percent, percents, points, signed_tenths, significant


@pytest.mark.parametrize("value", [0.0625, 0.1875, 0.7214, 0.9895, 1.0, 0.0])
def test_numbers_for_a_script_print_as_the_texts(value):
    assert f"{percents([value])[0]:.1f}" == percent(value)


def test_differences_are_those_of_the_exact_values():
    assert points(0.8975, 0.7214) == "+17.6"
    assert points(0.5, 0.50004) == "0.0"
    assert points(0.4, 0.5) == "−10.0"
    assert changes([0.8975, 0.5, math.nan], [0.7214, 0.50004, 0.5]) == [17.6, 0.0, None]


def test_sums_in_another_order_are_shown_alike():
    plain, equalized = 607 / 800, 729 / 800  # of all samples: 75.875 and 91.125 %, 15.25 points apart
    noise = 2e-16  # the same as a mean over categories
    assert points(equalized + noise, plain - noise) == points(equalized - noise, plain + noise)
    assert percent(0.7225 + noise) == percent(0.7225 - noise)
    assert signed_tenths(100 * (equalized - plain)) == points(equalized + noise, plain)


def test_what_is_unknown_is_a_dash_or_none():
    assert (percent(None), percent(math.nan), number(math.inf), points(None, 0.5)) == ("–", "–", "–", "")
    assert percents([math.nan]) == [None]
    assert significant([1.0, 0.12345, math.nan], 3) == [1, 0.123, None]
