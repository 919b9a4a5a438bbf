import csv
import io

import pytest
from hypothesis import given, strategies

from equigrad.csv_cells import defused, restored


@pytest.mark.parametrize("name", ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "'=1", "''=1"])
def test_a_name_that_a_spreadsheet_would_run_is_written_with_an_apostrophe(name):
    assert defused(name) == f"'{name}"
    assert restored(defused(name)) == name


@pytest.mark.parametrize("name", ["cat", "x=1", "'tis", "''", "0.5", ""])
def test_other_names_stay_as_they_are(name):
    assert defused(name) == restored(name) == name


@given(strategies.text(alphabet="'=+-@\t\r\na,\"", max_size=6))
def test_a_name_comes_back_from_a_csv_file(name):
    stream = io.StringIO(newline="")
    csv.writer(stream).writerow(["x", defused(name)])
    ((_, cell),) = csv.reader(io.StringIO(stream.getvalue(), newline=""))
    assert restored(cell) == name
    assert cell[:1] not in tuple("=+-@\t\r\n")
