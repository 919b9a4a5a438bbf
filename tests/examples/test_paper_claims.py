import csv

import numpy as np
import paper_claims
import pytest
from paper_claims import Claim, Tables, claim_rows, objectness_share, verdict

CLAIM = Claim("s_effect", "", "s=8", "s=0", "AP")


def write(folder, name, rows, column="AP"):
    with (folder / f"{name}.csv").open("w", newline="") as stream:
        fields = ["variant", "row", "run", "seed", f"ours_{column}", f"published_{column}"]
        writer = csv.DictWriter(stream, fields)
        writer.writeheader()
        writer.writerows(dict(zip(fields, row, strict=True)) for row in rows)


@pytest.fixture
def tables(tmp_path):
    rows = [("", "s=0", "a", seed, value, 25.7) for seed, value in enumerate((10.0, 12.0))]
    write(tmp_path, "s_effect", [*rows, ("", "s=8", "b", 0, 20.0, 27.5)])
    return Tables(tmp_path)


def test_a_difference_has_the_standard_error_of_the_rows_with_several_seeds(tables):
    assert tables.deviation("s_effect", "AP") == pytest.approx(np.sqrt(2))
    (row,) = claim_rows(tables, [CLAIM])
    assert row[2:] == ["+1.8", "+9.0 ± 1.7", "holds"]  # 20 - 11, and sqrt(2) * sqrt(1 + 1/2)


def test_a_run_that_several_tables_share_is_one_run(tables, tmp_path):
    write(tmp_path, "coco_results", [("", "FL", "a", seed, value, 40.0) for seed, value in enumerate((10.0, 12.0))])
    assert Tables(tmp_path).deviation("s_effect", "AP") == pytest.approx(np.sqrt(2))


def test_a_claim_without_its_rows_is_left_out(tables):
    assert claim_rows(tables, [Claim("s_effect", "", "s=4", "s=0", "AP")]) == []


@pytest.mark.parametrize(
    ("difference", "error", "num_seeds", "is_equal", "expected"),
    [
        (2.9, 1.0, 3, False, "holds"),
        (1.5, 1.0, 3, False, "weakly"),
        (0.5, 1.0, 3, False, "no difference"),
        (-0.5, 1.0, 3, False, "no difference"),
        (-1.5, 1.0, 3, False, "reversed weakly"),
        (-2.9, 1.0, 3, False, "does not hold"),
        (1.0, 1.0, 3, True, "no difference"),  # which no interval can show to be equal
        (-2.9, 1.0, 3, True, "does not hold"),
        (2.9, np.nan, 3, False, "one seed"),
        (2.9, 1.0, 2, False, "too few seeds"),
        (-2.9, 1.0, 2, False, "too few seeds"),
        (0.5, 1.0, 2, False, "no difference"),
        (3.0, 1.0, 1, False, "holds"),  # large enough for one seed
    ],
)
def test_the_verdict_depends_on_the_standard_error_and_on_the_seeds(difference, error, num_seeds, is_equal, expected):
    assert verdict(difference, error, num_seeds, is_equal=is_equal) == expected


def test_the_share_of_objectness_is_that_of_its_branch_in_the_whole_gain(tmp_path):
    rows = [("", "none", "a", 0, 20.0, 16.1), ("", "none", "a", 1, 22.0, 16.1)]
    write(
        tmp_path,
        "component_analysis",
        [*rows, ("", "obj", "b", 0, 23.0, 18.1), ("", "obj neg pos", "c", 0, 31.0, 23.7)],
    )
    assert objectness_share(Tables(tmp_path)).strip() == (
        "The objectness branch: +2.0 of +7.6 AP in the paper (26 %), +2.0 ± 1.7 of +10.0 ± 1.7 here (20 %)."
    )


def test_every_claim_names_rows_and_columns_of_the_paper():
    from equigrad.recipes.tables import TABLES

    for claim in paper_claims._claims():
        table = TABLES[f"{claim.table} ({claim.variant})" if claim.variant else claim.table]
        assert {claim.better, claim.worse} <= table.keys(), claim
        assert claim.column in table[claim.better], claim


def test_a_folder_of_tables_becomes_a_markdown_table(tables, tmp_path, capsys):
    paper_claims.main([str(tmp_path)])
    out = capsys.readouterr().out
    assert "| [s_effect](tables/s_effect.md) | s=8 > s=0, AP | +1.8 | +9.0 ± 1.7 | holds |" in out
    assert "1 claims: 1 holds." in out
