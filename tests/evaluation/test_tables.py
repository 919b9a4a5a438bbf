import json
import math

import pytest

from equigrad.evaluation.classification import ClassificationRow
from equigrad.evaluation.tables import write_table

ROWS = [
    ClassificationRow("dog, large", 500, "Many", 2, 1.0, "", 0.0),
    ClassificationRow("olm", 2, "Few", 0, math.nan, "dog, large", 0.5),
]


def test_csv_quotes_names_and_leaves_unknown_numbers_empty(tmp_path):
    text = write_table(ROWS, tmp_path / "new" / "table.csv").read_text()
    assert text.splitlines() == [
        "name,count,group,num_test,accuracy,most_confused_with,confused",
        '"dog, large",500,Many,2,1.0,,0.0',
        'olm,2,Few,0,,"dog, large",0.5',
    ]


def test_json_has_null_for_unknown_numbers(tmp_path):
    rows = json.loads(write_table(ROWS, tmp_path / "table.json").read_text())
    assert rows[1]["accuracy"] is None
    assert rows[0]["name"] == "dog, large"


def test_names_are_no_formulas_and_numbers_stay_numbers(tmp_path):
    rows = [{"name": '=HYPERLINK("http://x")', "AP": -0.5}, {"name": "-1+1", "AP": 1e-7}]
    text = write_table(rows, tmp_path / "table.csv").read_text()
    assert text.splitlines() == ["name,AP", '"\'=HYPERLINK(""http://x"")",-0.5', "'-1+1,1e-07"]
    stored = json.loads(write_table(rows, tmp_path / "table.json").read_text())
    assert stored == rows


def test_a_name_that_is_no_text_is_written_out(tmp_path):
    assert write_table([{"name": "\ud800"}], tmp_path / "table.csv").read_text() == "name\n\\ud800\n"


def test_mappings_are_rows_too(tmp_path):
    assert write_table([{"a": 1, "b": 2}], tmp_path / "t.csv").read_text() == "a,b\n1,2\n"


def test_a_failed_write_leaves_the_old_table_and_nothing_else(tmp_path):
    file = write_table(ROWS, tmp_path / "table.json")
    before = file.read_text()
    with pytest.raises(TypeError):
        write_table([{"a": object()}], file)
    assert file.read_text() == before
    assert list(tmp_path.iterdir()) == [file]


def test_other_formats_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"\.csv or \.json"):
        write_table(ROWS, tmp_path / "table.txt")
