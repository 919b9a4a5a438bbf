import csv

import pytest

from equigrad.analysis.paper_table import ResultRow
from equigrad.tasks.paper_tables.output import TableOutput

ROWS = [
    ResultRow("R50", "CE", {"AP": 10.0, "APr": 1.0}, {0: {"AP": 0.2, "APr": 0.02}, 1: {"AP": 0.22, "APr": 0.04}}, "ce"),
    ResultRow("R50", "EQL", {"AP": 20.0, "APr": 9.0}, {0: {"AP": 0.3, "APr": 0.01}}, "eql"),
]


@pytest.fixture
def output(tmp_path):
    return TableOutput(tmp_path / "new", "mini", ["--seeds", "2"], "equigrad 1.0, torch 2.0")


def test_a_table_says_by_which_command_and_version_it_was_made(output):
    output.write("main", ROWS)
    text = (output.folder / "main.md").read_text()
    assert "`equigrad table main --seeds 2` (equigrad 1.0, torch 2.0)" in text
    assert "| CE | 2 | 10.0 / 21.0 ± 1.4 |" in text


def test_markdown_csv_and_page_have_the_same_numbers(output):
    output.write("main", ROWS)
    with (output.folder / "main.csv").open() as stream:
        records = list(csv.DictReader(stream))
    assert [record["ours_AP"] for record in records] == ["20.0", "22.0", "30.0"]
    assert "21.0 ± 1.4" in (output.folder / "main.html").read_text()


def test_the_summary_has_the_rank_agreement_of_every_table(output):
    output.write("main", ROWS)
    line = output.write_summary({"main": ROWS, "other": ROWS[:1]})
    assert "README.md" in line
    text = (output.folder / "README.md").read_text()
    assert "| [main](main.md) | R50 | 2 | AP +1.00, APr −1.00 |" in text
    assert "| [other](other.md) | R50 | 1 | AP –, APr – |" in text


def test_a_note_on_masks_is_for_detectors_of_glyphs_alone(output):
    output.write("main", ROWS)
    assert "AP of boxes" in (output.folder / "main.md").read_text()
    TableOutput(output.folder, "full", {}, "").write("main", ROWS)
    assert "AP of boxes" not in (output.folder / "main.md").read_text()
