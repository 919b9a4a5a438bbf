import numpy as np
import pytest

from analysis.compared import compared
from equigrad.analysis.compared_tables import (
    as_markdown,
    as_text,
    category_rows,
    difference_and_margin,
    difference_table,
    mean_and_spread,
    method_rows,
    result_table,
)
from equigrad.analysis.rounding import points


@pytest.fixture
def results():
    return compared({"ce": {}, "eql": {"Few": 0.2}}, groups=("Medium", "Few"))


def test_an_empty_group_is_a_dash_in_every_table(results):
    heading, *rows = result_table(results)
    assert heading == ["%", "overall", "category mean", "many", "medium", "few"]
    assert [row[3] for row in rows] == ["–", "–"]
    (_, difference) = difference_table(results)
    assert difference[3] == "–"
    assert difference[5].startswith("+")


def test_numbers_have_their_spread_or_interval():
    assert mean_and_spread(78.41, 0.12) == "78.4 ± 0.1"
    assert mean_and_spread(78.41, np.nan) == "78.4"
    assert difference_and_margin(-3.06, 1.0) == "−3.1 ± 1.0"
    assert difference_and_margin(-0.01, np.nan) == "0.0"


@pytest.mark.parametrize("difference", [15.25 - 4e-14, 15.25, 15.25 + 4e-14, 0.05, -0.05])
def test_differences_are_rounded_as_on_the_page_of_runs(difference):
    assert difference_and_margin(difference, np.nan) == points(0.5 + difference / 100, 0.5)


def test_a_single_method_has_no_differences():
    assert difference_table(compared({"ce": {}})) == []


def test_text_is_aligned_and_markdown_has_a_rule(results):
    lines = as_text(result_table(results)).splitlines()
    assert len({line.index("±") for line in lines[1:]}) == 1
    assert as_markdown([["a", "b"], ["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"


def test_records_are_in_per_cent(results):
    plain, eql = method_rows(results)
    assert plain["Few_diff"] == 0
    assert eql["Few_diff"] == pytest.approx(20, abs=1)
    assert 0 < eql["Few_margin"] < 5
    assert eql["Few"] - plain["Few"] == pytest.approx(eql["Few_diff"], abs=0.01)
    assert np.isnan(eql["Many"])


def test_categories_are_listed_from_the_most_frequent(results):
    rows = category_rows(results)
    assert [row["count"] for row in rows] == sorted((row["count"] for row in rows), reverse=True)
    assert {"name", "count", "group", "num_test", "ce", "eql"} == rows[0].keys()
