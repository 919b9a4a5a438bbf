import re

import pytest

from analysis.run_folders import evaluation, recognition, statistics, write_run
from equigrad.analysis import findings
from equigrad.analysis.comparison import compare
from equigrad.analysis.history import RunHistory
from equigrad.commands.demo import result_table


def words(markup):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", markup)).replace("&amp;", "&").strip()


def both(tmp_path, *, first=None, second=None):
    folders = [write_run(tmp_path / "bce", **(first or {})), write_run(tmp_path / "eql", **(second or {}))]
    return compare([RunHistory.load(folder) for folder in folders])


BETTER = {
    "ratio": (1, 1, 0.9, 0.8, 0.6, 0.1),
    "evaluation": evaluation([0.6] * 6, {"AP": 0.35, "APr": 0.21, "APc": 0.25, "APf": 0.49}),
}


def test_the_lead_says_what_changed_overall_and_most(tmp_path):
    text = words(findings.lead(both(tmp_path, second=BETTER)))
    assert text == (
        "eql against bce: AP +5.0 points; the largest change is APr +20.0 points; starving categories 2 → 1."
    )


@pytest.mark.parametrize(
    ("rare", "ece", "is_said"), [(0.8, 0.165, True), (0.8, 0.06, False), (0.4, 0.165, False)], ids=str
)
def test_a_gain_of_the_tail_at_the_cost_of_calibration_is_said(tmp_path, rare, ece, is_said):
    results = [
        {"Overall": 0.7, "Frequent": 0.9, "Rare": 0.4, "top5": 0.9, "ECE": 0.051},
        {"Overall": 0.8, "Frequent": 0.9, "Rare": rare, "top5": 0.9, "ECE": ece},
    ]
    plain, better = ({"evaluation": evaluation([0.5] * 6, result, "accuracy")} for result in results)
    text = words(findings.lead(both(tmp_path, first=plain, second=better)))
    assert text.endswith("Its confidences are worse: the calibration error (ECE) is 16.5 % against 5.1 %.") == is_said


def test_results_show_differences_to_the_first_run_only_where_there_are_some(tmp_path):
    first, second = findings.result_tables(both(tmp_path, second=BETTER)).split("<tbody>")[1].split("</tr><tr>")
    assert words(first) == "bce 30.0 1.0 20.0 50.0"
    assert words(second) == "eql 35.0 +5.0 21.0 +20.0 25.0 +5.0 49.0 −1.0"
    assert 'class="difference down">−1.0' in second


def test_of_an_error_less_is_better(tmp_path):
    results = [{"evaluation": evaluation([0.5] * 6, {"Overall": 0.5, "ECE": value})} for value in (0.2, 0.1)]
    text = findings.result_tables(both(tmp_path, first=results[0], second=results[1]))
    assert 'class="difference up">−10.0' in text


def test_a_metric_that_one_run_lacks_is_a_dash(tmp_path):
    text = words(findings.result_tables(both(tmp_path, second={"evaluation": evaluation([0.5] * 6, {"AP": 0.4})})))
    assert text.endswith("eql 40.0 +10.0 – – –")


def test_many_metrics_are_folded_away_but_all_there(tmp_path):
    result = {f"metric{number}": number / 100 for number in range(23)}
    text = findings.result_tables(both(tmp_path, first={"evaluation": evaluation([0.5] * 6, result)}))
    assert all(f">metric{number}<" in text for number in range(23))
    assert text.index("<details>") > text.index(">metric9<")


@pytest.mark.parametrize(
    ("value", "base", "expected"),
    [
        *((0.5, 0.4, "+10.0"), (0.4, 0.5, "−10.0"), (0.5, 0.5001, "0.0"), (0.5, None, ""), (None, 0.5, "")),
        (0.8975, 0.7214, "+17.6"),  # of 89.8 and 72.1, the rounded ones, it would be 17.7
    ],
)
def test_differences_are_in_points_with_a_sign(value, base, expected):
    assert findings.points(value, base) == expected


def test_the_page_shows_the_differences_that_the_demo_prints(tmp_path):
    results = {
        "tiny:ce": {"Overall": 0.7214, "Many": 0.9904, "Medium": 0.93248, "Few": 0.36946},
        "tiny:softmax_eql": {"Overall": 0.8975, "Many": 0.9896, "Medium": 0.96805, "Few": 0.77834},
    }
    contents = [{"evaluation": evaluation([0.5] * 6, result)} for result in results.values()]
    shown = words(findings.result_tables(both(tmp_path, first=contents[0], second=contents[1])))
    printed = result_table({**results, "tiny:bce": results["tiny:ce"], "tiny:sigmoid_eql": results["tiny:ce"]})
    base, *changes = printed.splitlines()[3].removeprefix("   against ").split()
    assert base == "tiny:ce"
    assert changes == ["+17.6", "−0.1", "+3.6", "+40.9"]
    assert shown.split("eql ")[1].split()[1::2] == changes


def test_the_lead_of_a_run_alone_says_what_starves(tmp_path):
    run = write_run(tmp_path / "alone")
    text = words(findings.lead(compare([RunHistory.load(run)])))
    assert "alone : 2 of 6 categories are starving: 0 of 2 frequent, 0 of 2 common, 2 of 2 rare." in text


def test_starving_categories_are_named_with_what_they_lack(tmp_path):
    text = words(findings.starving_lists(both(tmp_path, second=BETTER)))
    assert "2 of 6 categories are starving: 0 of 2 frequent, 0 of 2 common, 2 of 2 rare." in text
    assert "yoke : 2 training samples, ratio 0.01" in text
    assert "unicycle : 5 training samples, ratio 0.1, AP 10.0 %" in text
    assert "Of the 2 that starve under bce, 1 do not here." in text


def test_a_category_without_any_positive_gradient_is_said_to_have_none(tmp_path):
    text = words(findings.starving_lists(both(tmp_path, first={"ratio": (1, 1, 1, 1, 1, 0)})))
    assert "yoke : 2 training samples, no positive gradient" in text


def test_categories_that_starve_only_in_the_second_run_are_counted(tmp_path):
    text = words(findings.starving_lists(both(tmp_path, first={"ratio": (1,) * 6})))
    assert "No category is starving." in text
    assert "None starves under bce." in text


def test_the_figures_are_described_in_numbers(tmp_path):
    comparison = both(tmp_path, second=BETTER)
    assert findings.describe_ratios(comparison) == (
        "Median gradient ratio at the end. bce: frequent 0.95, common 0.50, rare 0.06; "
        "eql: frequent 1.00, common 0.85, rare 0.35."
    )
    assert "bce 0.95 0.50 0.06 2 eql 1.00 0.85 0.35 1" in words(findings.ratio_table(comparison))
    rows = words(findings.training_table(comparison))
    assert "bce 50 0.95 0.50 0.06 bce 100 0.95" in rows
    assert "bce 0 " not in rows  # nothing was received yet


def with_wins(share):
    """A softmax: all ratios are 1, whatever the categories win."""
    return {"statistics": {**statistics([1] * 6), **recognition(share)}}


def test_a_share_below_the_limit_is_not_rounded_up_to_it(tmp_path):
    comparison = both(tmp_path, first=with_wins([1, 1, 1, 1, 1, 0.496]), second=with_wins([1] * 6))
    text = words(findings.starving_lists(comparison)).replace("\u00a0", " ")
    assert "wins 49 % of its samples" in text


def test_where_wins_are_recorded_they_and_not_the_ratio_say_who_starves(tmp_path):
    plain, better = with_wins([1, 1, 0.9, 0.6, 0.3, 0]), with_wins([1, 1, 0.9, 0.8, 0.7, 0.4])
    comparison = both(tmp_path, first=plain, second=better)
    text = words(findings.starving_lists(comparison))
    assert "2 of 6 categories are starving: 0 of 2 frequent, 0 of 2 common, 2 of 2 rare." in text
    assert "yoke : 2 training samples, wins 0 % of its samples" in text.replace("\u00a0", " ")
    assert "Of the 2 that starve under bce, 1 do not here." in text
    assert "starving categories 2 → 1" in words(findings.lead(comparison))
    assert "bce 100.0 75.0 15.0 2 eql 100.0 85.0 55.0 1" in words(findings.won_table(comparison))


def test_a_run_without_gradient_statistics_can_starve_too(tmp_path):
    only_wins = {"statistics": {"steps": statistics([1] * 6)["steps"], **recognition([1, 1, 1, 1, 1, 0])}}
    comparison = both(tmp_path, first=only_wins)
    assert not [run for run in comparison.watched if run.name == "bce"]
    assert "1 of 6 categories are starving" in words(findings.starving_lists(comparison))
