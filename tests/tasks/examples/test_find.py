import json
from dataclasses import replace

from equigrad.analysis.comparison import compare
from equigrad.analysis.history import RunHistory
from equigrad.analysis.report.examples import changed_categories
from equigrad.tasks.examples.find import find_examples
from tasks.examples.glyph_runs import RECIPE, TEST_SET, write_glyph_run


def found(*folders):
    comparison = compare([RunHistory.load(folder) for folder in folders])
    return comparison, find_examples(comparison, changed_categories(comparison))


def test_a_category_that_gained_comes_with_images(tmp_path):
    first, second = write_glyph_run(tmp_path / "a", [0] * 5), write_glyph_run(tmp_path / "b", [3] * 5)
    comparison, examples = found(first, second)
    (index,) = examples.of_category
    assert comparison.categories.names[index] == TEST_SET.class_names[3]
    assert len(examples.of_category[index]) == 3
    assert examples.note == ""


def test_what_is_missing_becomes_a_note(tmp_path):
    first, second = write_glyph_run(tmp_path / "a", [0] * 5), write_glyph_run(tmp_path / "b", [3] * 5)
    (second / "predictions" / "test.npz").unlink()
    _, examples = found(first, second)
    assert examples.of_category == {}
    assert examples.note.startswith(f"Test images are not shown: {second / 'predictions' / 'test.npz'} is missing")


def test_runs_on_different_data_have_no_common_images(tmp_path):
    other = replace(RECIPE, data=replace(RECIPE.data, seed=1))
    first = write_glyph_run(tmp_path / "a", [0] * 5)
    _, examples = found(first, write_glyph_run(tmp_path / "b", [3] * 5, other))
    assert "has another test set than" in examples.note


def test_a_recipe_that_names_what_is_not_a_setting_is_not_executed(tmp_path):
    first, second = write_glyph_run(tmp_path / "a", [0] * 5), write_glyph_run(tmp_path / "b", [3] * 5)
    file = second / "recipe.json"
    content = json.loads(file.read_text())
    content["settings"]["data"] = {"type": "os.system", "command": f"touch {tmp_path / 'taken'}"}
    file.write_text(json.dumps(content))
    _, examples = found(first, second)
    assert examples.note.startswith("Test images are not shown: ")
    assert not (tmp_path / "taken").exists()
