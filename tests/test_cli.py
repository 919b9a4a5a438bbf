"""The command line itself: help, exit codes, and errors in one line."""

import subprocess
import sys

import pytest

from commands.running_commands import equigrad


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "tiny:nothing"], "no such function"),
        (["train", "tiny"], "expected module:function"),
        (["train", "tiny:ce", "--set", "training.epoch=3"], "no field 'epoch' in TrainSettings"),
        (["train", "tiny:softmax_eql", "--set", "method.loss.prior_power=much"], "prior_power=much: expected a number"),
        (["train", "own_data:classification"], "train: no such list or folder; name yours with --set data.train="),
        (["evaluate", "nowhere"], "nowhere: no such run"),
        (["evaluate", "."], "not the folder of a run, it has no recipe.json"),
        (["predict", "nowhere", "image.png"], "nowhere: no such run"),
        (["predict", "nowhere", "."], ".: expected images in the folder, found none"),
        (["report", "nowhere"], "nowhere is not the folder of a run"),
        (["recipes", "--check", "tiny:nothing"], "no such function"),
        (["data", "counts", "nowhere"], "nowhere: no such list, folder or file of images"),
        (["data", "check", "nowhere"], "nowhere: no such list"),
        (["data", "long-tail", "nowhere", "--output", "lt.txt"], "nowhere: no such list"),
        (["data", "counts", "."], "found no image in any folder"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(words, message, tmp_path):
    done = equigrad(*words, folder=tmp_path)
    assert done.code == 1
    assert message in done.err
    assert len(done.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "words", [[], ["train"], ["fly"], ["train", "tiny:ce", "--speed", "9"], ["data"], ["data", "long-tail", "a"]]
)
def test_wrong_usage_exits_with_2(words):
    assert equigrad(*words).code == 2


def test_the_module_is_a_program(tmp_path):
    line = [sys.executable, "-m", "equigrad", "evaluate", "nowhere"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "equigrad: nowhere: no such run; expected a folder that `equigrad train` made\n"


def python(code, *words, folder):
    line = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", [["--help"], ["train", "--help"], ["evaluate", "--help"]])
def test_help_comes_without_importing_torch(words, tmp_path):
    code = """
import sys
from equigrad.cli import main
try:
    main(sys.argv[1:])
finally:
    print("torch" in sys.modules, file=sys.stderr)
"""
    done = python(code, *words, folder=tmp_path)
    assert done.returncode == 0
    assert "usage: equigrad" in done.stdout
    assert done.stderr.strip() == "False"


@pytest.mark.parametrize("missing", ["torchvision", "lightning"])
def test_without_the_train_extra_one_line_names_it(missing, tmp_path):
    code = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == sys.argv[1]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
from equigrad.cli import main
sys.exit(main(sys.argv[2:]))
"""
    done = python(code, missing, "train", "tiny:ce", "--run", tmp_path / "run", folder=tmp_path)
    assert done.returncode == 1, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"equigrad: No module named '{missing}")
    assert "pip install 'equigrad[train]'" in line
