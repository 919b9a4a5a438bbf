"""`equigrad.load`, where the `train` extra is and where it is not."""

import subprocess
import sys

import pytest

import equigrad


def test_a_folder_that_is_no_run_is_told(tmp_path):
    with pytest.raises(ValueError, match="no such run"):
        equigrad.load(tmp_path / "gone")


def test_without_the_train_extra_one_line_says_what_to_install():
    code = (
        "import sys\n"
        "sys.modules['torchvision'] = sys.modules['lightning'] = sys.modules['msgspec'] = None\n"
        "import equigrad\n"
        "try:\n    equigrad.load('runs/own')\n"
        "except ModuleNotFoundError as error:\n    print(error)\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.endswith("equigrad.load needs the train extra: pip install 'equigrad[train]'\n")
    assert shown.stdout.count("\n") == 1
