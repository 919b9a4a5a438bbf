"""The command line as a user types it: real processes on small data."""

import json
import subprocess
import sys

import pytest

SMALL = [
    *("--set", "data.num_classes=5", "--set", "data.max_count=12", "--set", "data.imbalance_factor=6"),
    *("--set", "data.test_count=2", "--set", "training.schedule.epochs=1", "--set", "training.batch_size=8"),
    *("--set", "training.schedule.warmup.length=1", "--set", "training.log_every=1"),
]


def equigrad(*words, folder=None):
    line = [sys.executable, "-m", "equigrad", *map(str, words)]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a small finished run."""
    folder = tmp_path_factory.mktemp("runs") / "softmax_eql"
    done = equigrad("train", "tiny:softmax_eql", "--run", folder, "--set", "prior_power=0.5", *SMALL)
    assert done.returncode == 0, done.stderr
    assert "Overall" in done.stdout
    return folder


def test_recipes_lists_what_can_be_trained():
    listed = equigrad("recipes")
    assert listed.returncode == 0
    assert "tiny:softmax_eql" in listed.stdout
    assert "own_data:classification" in listed.stdout


def test_a_run_folder_tells_what_it_is(run):
    recipe = json.loads((run / "recipe.json").read_text())
    assert recipe["recipe"] == "tiny:softmax_eql"
    assert "prior_power=0.5" in recipe["set"]
    assert recipe["command"][:3] == ["equigrad", "train", "tiny:softmax_eql"]
    assert (run / "statistics.npz").exists()


def test_evaluate_writes_metrics_and_categories(run, tmp_path):
    done = equigrad("evaluate", run, "--json", tmp_path / "result.json", "--csv", tmp_path / "categories.csv")
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "result.json").read_text(), parse_constant=pytest.fail)
    assert 0 <= result["Overall"] <= 1
    assert result["Many"] is None  # no category of this small data has so many images
    assert len((tmp_path / "categories.csv").read_text().splitlines()) == 6
    assert (run / "evaluation.json").exists()


def test_report_writes_one_page(run, tmp_path):
    done = equigrad("report", run, "--output", tmp_path / "page.html")
    assert done.returncode == 0, done.stderr
    assert "<html" in (tmp_path / "page.html").read_text()


def test_a_finished_run_is_not_overwritten(run):
    done = equigrad("train", "tiny:softmax_eql", "--run", run, *SMALL)
    assert done.returncode == 1
    assert "is not empty" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "tiny:nothing"], "no such function"),
        (["train", "tiny"], "expected module:function"),
        (["train", "tiny:ce", "--set", "training.epoch=3"], "no field 'epoch' in TrainSettings"),
        (["train", "tiny:softmax_eql", "--set", "prior_power=much"], "prior_power=much: expected a number"),
        (["train", "own_data:classification"], "train: no such list or folder; set data.train"),
        (["evaluate", "nowhere"], "expected the recipe of a run"),
        (["report", "nowhere"], "nowhere"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(words, message, tmp_path):
    done = equigrad(*words, folder=tmp_path)
    assert done.returncode == 1
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("words", [[], ["train"], ["fly"], ["train", "tiny:ce", "--speed", "9"]])
def test_wrong_usage_exits_with_2(words):
    assert equigrad(*words).returncode == 2
