import math

import pytest

from equigrad.analysis.paper_table import (
    ResultRow,
    agreement,
    kendall_tau,
    markdown,
    paper_table,
    table_records,
)


@pytest.fixture
def rows():
    """Three methods with two seeds each; both columns rank CE last, and the others differently."""
    return [
        ResultRow(
            "R50", "CE", {"AP": 20.0, "APr": 1.0}, {0: {"AP": 0.10, "APr": 0.0}, 1: {"AP": 0.12, "APr": 0.02}}, "a"
        ),
        ResultRow(
            "R50", "RFS", {"AP": 22.0, "APr": 9.0}, {0: {"AP": 0.20, "APr": 0.1}, 1: {"AP": 0.22, "APr": 0.1}}, "b"
        ),
        ResultRow(
            "R50", "EQL", {"AP": 25.0, "APr": 17.0}, {0: {"AP": 0.18, "APr": 0.2}, 1: {"AP": 0.18, "APr": 0.3}}, "c"
        ),
    ]


def test_a_cell_has_the_published_number_and_our_mean_and_spread(rows):
    table = paper_table(rows)
    assert table[0] == ["published / ours, %", "seeds", "AP", "APr"]
    assert table[2] == ["CE", "2", "20.0 / 11.0 ± 1.4", "1.0 / 1.0 ± 1.4"]


def test_the_last_line_of_a_variant_says_how_well_the_ranks_agree(rows):
    assert paper_table(rows)[-1] == ["*rank agreement (tau)*", "", "+0.33", "+1.00"]  # one of three pairs is swapped


def test_variants_that_the_paper_does_not_tell_apart_do_not_count_in_the_agreement(rows):
    other = ResultRow("R50", "EQL (cosine)", {"AP": 25.0}, {0: {"AP": 0.01}}, "d", is_compared=False)
    assert agreement([*rows, other], "AP") == agreement(rows, "AP")


def test_rows_without_a_run_are_dashes_and_do_not_count(rows):
    missing = ResultRow("R50", "BAGS", {"AP": 1.0, "APr": 2.0}, {}, "e")
    assert paper_table([*rows, missing])[-2] == ["BAGS", "0", "1.0 / –", "2.0 / –"]
    assert agreement([*rows, missing], "AP").num_rows == 3


def test_groups_of_openimages_are_read_from_the_nearest_groups_of_lvis():
    row = ResultRow("", "CE", {"AP": 43.1, "AP1": 26.3, "AP3": 45.2}, {0: {"AP": 0.1, "APr": 0.2}}, "a")
    assert paper_table([row])[1] == ["CE", "1", "43.1 / 10.0", "26.3 / 20.0", "45.2 / –"]


@pytest.mark.parametrize(
    ("pairs", "tau"),
    [
        ([(1, 1), (2, 2), (3, 3)], 1.0),
        ([(1, 3), (2, 2), (3, 1)], -1.0),
        ([(1, 1), (2, 2), (3, 2)], 2 / math.sqrt(6)),  # a tie on one side, as scipy.stats.kendalltau has it
    ],
)
def test_kendalls_tau_of_pairs_worked_out_by_hand(pairs, tau):
    assert kendall_tau(pairs) == pytest.approx(tau)


@pytest.mark.parametrize("pairs", [[], [(1, 1)], [(1, 1), (1, 2)]])
def test_ranks_of_nothing_have_no_agreement(pairs):
    assert math.isnan(kendall_tau(pairs))


def test_records_have_every_seed_with_the_published_numbers(rows):
    records = table_records(rows)
    assert len(records) == 6
    assert records[1] == {
        "variant": "R50",
        "row": "CE",
        "compared": 1,
        "run": "a",
        "seed": 1,
        "ours_AP": 12.0,
        "ours_APr": 2.0,
        "published_AP": 20.0,
        "published_APr": 1.0,
    }


def test_the_markdown_has_title_table_and_notes(rows):
    text = markdown("component_analysis, mini", rows, ["A note."])
    assert text.startswith("# component_analysis, mini\n\n| published / ours, % | seeds | AP | APr |\n| --- |")
    assert text.endswith("\n\nA note.\n")
