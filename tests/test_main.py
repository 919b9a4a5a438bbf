"""`python -m equigrad` in a folder of somebody else."""

import os
import subprocess
import sys

import pytest

RECIPE = "from equigrad.recipes import tiny\n\ndef recipe():\n    return tiny.ce()\n"


@pytest.fixture
def planted(tmp_path):
    """A folder with modules that Python would take for those of the same name, and with a run."""
    for name in ("torch", "json", "argparse", "numpy", "planted"):
        (tmp_path / f"{name}.py").write_text(f"open('hacked by {name}', 'w')\nraise SystemExit('hacked')\n")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.json").write_text('{"format": 2, "starts": [], "settings": {}, "recipe": "planted:x"}')
    return tmp_path


def equigrad(folder, *words):
    line = [sys.executable, "-m", "equigrad", *words]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)


def test_modules_of_the_current_folder_are_not_imported(planted):
    done = equigrad(planted, "evaluate", "run")
    assert done.stderr.startswith("equigrad: run/recipe.json: settings: expected ClassificationRecipe or")
    assert done.returncode == 1
    assert not list(planted.glob("hacked*"))


def test_a_recipe_module_of_the_current_folder_is_imported_when_the_user_names_it(planted):
    (planted / "mine.py").write_text(RECIPE)
    done = equigrad(planted, "train", "mine:recipe", "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("equigrad train mine:recipe")
    assert not list(planted.glob("hacked*"))


def test_a_folder_on_the_python_path_stays_there(tmp_path):
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "mine.py").write_text(RECIPE)
    path = os.pathsep.join([str(tmp_path / "library"), os.environ.get("PYTHONPATH", "")])
    line = [sys.executable, "-m", "equigrad", "train", "mine:recipe", "--help"]
    done = subprocess.run(line, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=False)
    assert done.returncode == 0
