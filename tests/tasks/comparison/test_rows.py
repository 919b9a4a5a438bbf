"""Rows of a comparison; the command that measures them is tested in tests/commands/test_compare.py."""

import csv
import json

import pytest

from analysis.compared import compared
from equigrad.engine import EngineError
from equigrad.tasks.comparison.last_layer import LastLayer
from equigrad.tasks.comparison.rows import SETTINGS, ComparisonFolder, Method, measure_rows
from running import load


def method(*assignments):
    return Method(load("own_data:classification", assignments), {})


@pytest.fixture
def folder(tmp_path):
    return ComparisonFolder(tmp_path / "out", "classification", LastLayer())


@pytest.fixture
def measure(folder):
    """Measures nothing but keeps a result; `measured` has the rows in order, `stop_at` ends it."""

    def measure(name, seed):
        if len(measure.measured) == measure.stop_at:
            return False
        measure.measured.append((name, seed))
        folder.row(name, seed).mkdir(parents=True)
        compared({"ce": {}}).evaluations[0][seed].save(folder.row(name, seed))
        return True

    measure.measured, measure.stop_at = [], None
    return measure


def test_all_methods_have_one_seed_before_any_has_two(folder, measure, capsys):
    assert measure_rows(folder, ["ce", "eql"], 2, measure)
    assert measure.measured == [("ce", 0), ("eql", 0), ("ce", 1), ("eql", 1)]
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith("1 of 4  ce, seed 0: overall ")
    assert "s per row, about 0:00:0" in first
    assert "left" not in last


def test_finished_rows_are_kept_and_not_repeated(folder, measure, capsys):
    measure.stop_at = 1
    assert not measure_rows(folder, ["ce", "eql"], 2, measure)
    with (folder.folder / "rows.csv").open() as stream:
        assert [(row["method"], row["seed"]) for row in csv.DictReader(stream)] == [("ce", "0")]
    measure.stop_at = None
    assert measure_rows(folder, ["ce", "eql"], 2, measure)
    assert measure.measured == [("ce", 0), ("eql", 0), ("ce", 1), ("eql", 1)]
    assert "1 of 4 rows are there from before" in capsys.readouterr().out
    with (folder.folder / "rows.csv").open() as stream:
        assert len(list(csv.DictReader(stream))) == 4


def test_the_file_of_all_rows_gets_one_that_was_measured_before_a_kill(folder, measure):
    measure("ce", 0)  # killed before the file was written
    assert measure_rows(folder, ["ce"], 1, measure)
    assert measure.measured == [("ce", 0)]
    with (folder.folder / "rows.csv").open() as stream:
        assert [row["method"] for row in csv.DictReader(stream)] == ["ce"]


def test_a_comparison_that_begins_removes_what_a_killed_one_left(folder):
    folder.keep_settings({})
    half = folder.folder / ".rows.csv.13108.part"
    half.write_text("method,")
    folder.keep_settings({})
    assert not half.exists()


def test_other_settings_of_a_method_are_refused_and_other_methods_welcome(folder, measure):
    folder.keep_settings({"ce": method("method=ce")})
    measure_rows(folder, ["ce", "softmax_eql"], 1, measure)
    folder.keep_settings({"softmax_eql": method("method=softmax_eql"), "ce": method("method=ce", "device=cpu")})
    message = r"out: softmax_eql was measured with method.loss.prior_power=1.0, not 2.0; choose another --folder"
    with pytest.raises(EngineError, match=message):
        folder.keep_settings({"softmax_eql": method("method.loss.prior_power=2")})
    assert json.loads((folder.folder / SETTINGS).read_text())["methods"].keys() == {"ce", "softmax_eql"}


def test_settings_that_nothing_was_measured_with_may_change(folder, measure):
    folder.keep_settings({"ce": method("method=ce", "data.train=nowhere")})
    folder.keep_settings({"ce": method("method=ce"), "a": method(), "a_1": method()})
    measure_rows(folder, ["a_1"], 1, measure)
    folder.keep_settings({"a": method("method.loss.prior_power=2")})
    ComparisonFolder(folder.folder / "other", "detection", None).keep_settings({})


def test_another_kind_of_comparison_is_refused(folder, measure):
    folder.keep_settings({"ce": method("method=ce")})
    measure_rows(folder, ["ce"], 1, measure)
    longer = ComparisonFolder(folder.folder, "classification", LastLayer(epochs=90))
    with pytest.raises(
        EngineError, match=r"made with last_layer epochs=60 .*, not epochs=90 .*; choose another --folder"
    ):
        longer.keep_settings({})
    with pytest.raises(EngineError, match="made with task classification, not detection"):
        ComparisonFolder(folder.folder, "detection", None).keep_settings({})


@pytest.mark.parametrize(
    "content", ["", "[]", '{"format": 1}', "[" * 100_000, '{"format":1,"task":1,"last_layer":1,"methods":[]}']
)
def test_a_damaged_file_of_settings_gets_one_line(folder, content):
    folder.row("ce", 0).mkdir(parents=True)
    (folder.folder / SETTINGS).write_text(content)
    with pytest.raises(EngineError, match=f"{SETTINGS}: expected the settings of a comparison"):
        folder.keep_settings({"ce": method("method=ce")})


def test_settings_that_name_a_class_of_their_own_are_refused(folder, measure):
    folder.keep_settings({"ce": method("method=ce")})
    measure_rows(folder, ["ce"], 1, measure)
    content = json.loads((folder.folder / SETTINGS).read_text())
    content["methods"]["ce"]["backbone"] = {"type": "os.system", "command": "true"}
    (folder.folder / SETTINGS).write_text(json.dumps(content))
    with pytest.raises(EngineError, match=f"{SETTINGS}: ce: backbone: expected"):
        folder.keep_settings({"ce": method("method=ce")})
