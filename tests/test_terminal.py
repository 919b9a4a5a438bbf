import math

import pytest

from equigrad.errors import one_line
from equigrad.terminal import metric_line, printable


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("red \x1b[31mcat", r"red \x1b[31mcat"),
        ("title \x1b]0;owned\x07", r"title \x1b]0;owned\x07"),
        ("two\nlines\r", r"two\nlines\r"),
        ("\x9b2J", r"\x9b2J"),  # the one-byte form of the same
        ("gpj.\u202eexe", r"gpj.\u202eexe"),
        ("not UTF-8: \udcff", r"not UTF-8: \udcff"),
        ("a\u2028b", r"a\u2028b"),
    ],
)
def test_what_a_terminal_would_obey_is_written_out(name, shown):
    assert printable(name) == shown
    shown.encode()


@pytest.mark.parametrize("name", ["cat", "Ölm", "犬", "crème brûlée", "C:\\photos", "👩‍🔬", "تمساح"])
def test_ordinary_names_stay_as_they_are(name):
    assert printable(name) == name


def test_the_line_of_an_error_holds_no_escape_sequence():
    assert one_line(ValueError("a\x1b[2J.png: no such\nimage")) == r"a\x1b[2J.png: no such image"


def test_metrics_are_in_per_cent_with_one_decimal():
    assert metric_line({"Overall": 0.7216, "ECE": 0.0004}) == "Overall 72.2  ECE 0.0"


def test_a_group_without_categories_is_a_dash():
    assert metric_line({"Overall": 1.0, "Many": math.nan}) == "Overall 100.0  Many –"
