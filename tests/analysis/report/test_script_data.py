from analysis.run_folders import NAMES, evaluation, predictions, recognition, statistics, write_run
from equigrad.analysis.comparison import compare
from equigrad.analysis.history import RunHistory
from equigrad.analysis.report.predictions import read_test_predictions
from equigrad.analysis.report.script_data import script_data_of


def data_of(*folders):
    comparison = compare([RunHistory.load(folder) for folder in folders])
    return script_data_of(comparison, [read_test_predictions(folder, comparison.categories) for folder in folders])


def test_the_script_gets_rounded_values_of_every_category(tmp_path):
    better = evaluation([0.6, 0.5, 0.5, 0.4, 0.30004, 0.2])
    arrays = statistics((1, 1, 0.9, 0.8, 0.6, 0.5)) | recognition((1, 0.994, 0.9, 0.8, 0.5, 0))
    data = data_of(write_run(tmp_path / "a"), write_run(tmp_path / "b", statistics=arrays, evaluation=better))
    assert list(data["names"]) == list(NAMES)
    assert data["steps"] == [50, 100]  # nothing was received at step 0
    assert (data["metric"], data["headline"]) == ("AP", "AP")
    first, second = data["runs"]
    assert first["ratio"][-1] == [1, 0.9, 0.6, 0.4, 0.1, 0.01]
    assert first["metric"] == [60, 50, 40, 20, 10, None]
    assert "won" not in first
    assert "change" not in first
    assert second["won"][-1] == [100, 99, 90, 80, 50, 0]
    assert second["change"] == [0, 0, 10, 20, 20, None]
    assert second["ratioCurves"][2] == [None, 0.55, 0.55]  # rare
    assert second["wonCurves"][2] == [None, 25, 25]
    assert second["loss"] == [(50, 2), (100, 1)]


def test_at_each_step_a_run_shows_what_it_knew_then(tmp_path):
    early = write_run(tmp_path / "early", statistics=statistics([1.0] * 6, steps=(10, 40)))
    late = write_run(tmp_path / "late", statistics=statistics([0.5] * 6, steps=(30, 60)))
    data = data_of(early, late)
    assert data["steps"] == [10, 30, 40, 60]
    assert [row and row[0] for row in data["runs"][0]["ratio"]] == [1, 1, 1, 1]
    assert [row and row[0] for row in data["runs"][1]["ratio"]] == [None, 0.5, 0.5, 0.5]


def test_the_metric_during_training_is_there_after_two_evaluations(tmp_path):
    tests = [{"step": step, "evaluation": {"AP": step / 1000}} for step in (50, 100)]
    once = write_run(tmp_path / "once", metrics=tests[:1])
    twice = write_run(tmp_path / "twice", metrics=tests)
    runs = data_of(once, twice)["runs"]
    assert "evaluations" not in runs[0]
    assert runs[1]["evaluations"] == [(50, 5), (100, 10)]


def test_reliability_comes_with_predictions(tmp_path):
    labels = [0] * 20 + [5] * 20
    run = write_run(tmp_path / "run", predictions=predictions(labels, [0] * 40, [0.9] * 20 + [0.5] * 20))
    assert data_of(run)["runs"][0]["reliability"] == [[(90, 100, 20)], [], [(50, 0, 20)]]
