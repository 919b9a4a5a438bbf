import csv

import numpy as np
import pytest

from equigrad.commands.prediction.files import prediction_files
from equigrad.csv_cells import restored
from equigrad.data.images.sources import ImageSource
from equigrad.tasks.classification.prediction import Classification

PREDICTION = Classification(
    ImageSource(), np.array([1, 0]), ("=cmd()", "line\nbreak"), np.array([0.75, 0.25], np.float32), ("few", "many")
)


def test_names_are_cells_that_no_spreadsheet_runs(tmp_path):
    with prediction_files(None, tmp_path / "new" / "found.csv") as files:
        files.add(PREDICTION, "-a.png", "-a.png")
    with (tmp_path / "new" / "found.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["name"] for row in rows] == ["'=cmd()", "line\nbreak"]
    assert {restored(row["image"]) for row in rows} == {"-a.png"}
    assert [float(row["score"]) for row in rows] == [0.75, 0.25]


def test_without_files_nothing_is_written(tmp_path):
    with prediction_files(None, None) as files:
        files.add(PREDICTION, "a.png", "a.png")
    assert not list(tmp_path.iterdir())


def test_a_failure_leaves_no_half_file(tmp_path):
    def fail():
        with prediction_files(tmp_path / "found.json", tmp_path / "found.csv") as files:
            files._write_row("half")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not list(tmp_path.iterdir())
