"""`python -m equigrad` in a folder of somebody else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import equigrad as package

RECIPE = "from equigrad.recipes import tiny\n\ndef recipe():\n    return tiny.ce()\n"


@pytest.fixture
def planted(tmp_path):
    """A folder with modules that Python would take for those of the same name."""
    for name in ("torch", "json", "argparse", "numpy", "planted"):
        (tmp_path / f"{name}.py").write_text(f"open('hacked by {name}', 'w')\nraise SystemExit('hacked')\n")
    return tmp_path


def equigrad(folder, *words):
    line = [sys.executable, "-m", "equigrad", *words]
    # The user's own PYTHONPATH is trusted; this one names the package alone.
    environment = {**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1])}
    return subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_modules_of_the_current_folder_are_only_imported_when_the_user_names_them(planted):
    """One process for all, because it imports everything: the recipe is named, the others only lie there."""
    (planted / "mine.py").write_text(RECIPE)
    done = equigrad(planted, "train", "mine:recipe", "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("equigrad train mine:recipe")
    assert not list(planted.glob("hacked*"))
