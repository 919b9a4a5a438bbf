import pytest

from equigrad.analysis.paper_table import ResultRow
from equigrad.tasks.paper_tables.output import TableOutput
from equigrad.tasks.paper_tables.written_results import written_results

HEADER = "variant,row,compared,run,seed,ours_AP,published_AP"


@pytest.mark.parametrize("seeds", [(0, 1), (2,)])
def test_results_are_found_by_the_name_of_the_run_and_its_seed(seeds, tmp_path):
    rows = [
        ResultRow("", "CE", {"AP": 10.0}, {seed: {"AP": 0.1 + seed / 100} for seed in seeds}, "detection_ce_12345678"),
        ResultRow("", "EQL", {"AP": 20.0}, {}, "detection_eql_12345678"),
    ]
    TableOutput(tmp_path, "mini", [], "").write("s_effect", rows)
    found = written_results(tmp_path, ["s_effect", "mapping_func"])
    assert found == {f"detection_ce_12345678_{seed}": {"AP": pytest.approx(0.1 + seed / 100)} for seed in seeds}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "columns run and seed"),
        (f"{HEADER}\n,CE,1,run,0,nan,1\n", "line 2, ours_AP: expected a number from 0 to 100, got 'nan'"),
        (f"{HEADER}\n,CE,1,run,0,101,1\n", "got '101'"),
        (f"{HEADER}\n,CE,1,run,0,much,1\n", "got 'much'"),
    ],
)
def test_a_file_that_is_no_such_table_is_refused_with_its_line(text, message, tmp_path):
    (tmp_path / "s_effect.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        written_results(tmp_path, ["s_effect"])
