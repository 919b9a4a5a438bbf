import re

from analysis.run_folders import predictions, recognition, statistics, write_run
from equigrad.analysis.comparison import compare
from equigrad.analysis.history import RunHistory
from equigrad.analysis.report.confusion import confusion_tables
from equigrad.analysis.report.predictions import read_test_predictions


def tables_of(*folders):
    comparison = compare([RunHistory.load(folder) for folder in folders])
    found = [read_test_predictions(folder, comparison.categories) for folder in folders]
    return re.sub(r"<[^>]+>", " ", confusion_tables(comparison, found)).split()


def run_with(tmp_path, name, said, won=(1, 1, 1, 1, 1, 0.1)):
    arrays = statistics([1] * 6) | recognition(won)
    return write_run(tmp_path / name, statistics=arrays, predictions=predictions([5] * 4, said))


def test_starving_categories_are_listed_with_their_takers(tmp_path):
    words = " ".join(tables_of(run_with(tmp_path, "a", [0, 0, 1, 5]), run_with(tmp_path, "b", [5, 5, 5, 0])))
    assert "yoke 1 of 4 correct 2 × person 1 × car 3 of 4 correct 1 × person" in words
    assert "a 25.0 75.0 0.0 0.0" in words  # of rare: correct, predicted as frequent, common, rare


def test_without_starving_categories_that_is_said(tmp_path):
    words = " ".join(tables_of(run_with(tmp_path, "a", [5] * 4, won=[1] * 6)))
    assert "No category with test samples is starving." in words


def test_a_run_without_predictions_has_no_column(tmp_path):
    words = " ".join(tables_of(run_with(tmp_path, "a", [0, 0, 1, 5]), write_run(tmp_path / "b")))
    assert "category a yoke" in words
