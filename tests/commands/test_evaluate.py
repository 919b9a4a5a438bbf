"""`equigrad evaluate` on the folder of a run; detections of other tools are in `test_detections.py`."""

import json

import pytest

from commands.running_commands import equigrad


def test_evaluate_writes_metrics_and_categories(run, tmp_path):
    done = equigrad("evaluate", run, "--json", tmp_path / "result.json", "--csv", tmp_path / "categories.csv")
    assert done.code == 0, done.err
    result = json.loads((tmp_path / "result.json").read_text(), parse_constant=pytest.fail)
    assert 0 <= result["Overall"] <= 1
    assert result["Many"] is None  # no category of this small data has so many images
    assert "Many –" in done.out
    assert len((tmp_path / "categories.csv").read_text().splitlines()) == 6
    assert (run / "evaluation.json").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ("[]", "no format version"),
        ('{"recipe": "tiny:ce", "set": []}', "no format version; runs of earlier versions must be trained anew"),
        ('{"format": 99}', "format 99 is not known here, expected 2"),
        ('{"format": 2, "starts": []}', "expected the fields starts and settings"),
        ('{"format": 2, "starts": [], "settings": {"type": "Method"}}', "settings: expected ClassificationRecipe or"),
    ],
)
def test_a_broken_recipe_of_a_run_is_named(content, message, tmp_path):
    (tmp_path / "recipe.json").write_text(content)
    done = equigrad("evaluate", tmp_path)
    assert done.code == 1
    assert f"{tmp_path}/recipe.json: " in done.err
    assert message in done.err
