import math

from equigrad.commands.metric_lines import metric_line


def test_metrics_are_in_per_cent_with_one_decimal():
    assert metric_line({"Overall": 0.7216, "ECE": 0.0004}) == "Overall 72.2  ECE 0.0"


def test_a_group_without_categories_is_a_dash():
    assert metric_line({"Overall": 1.0, "Many": math.nan}) == "Overall 100.0  Many –"
