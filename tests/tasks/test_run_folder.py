"""A run folder is enough to rebuild, evaluate and go on with a run, and nothing in it is executed."""

import json
import os
import shutil
import signal
import subprocess

import pytest
from PIL import Image

from equigrad.cli import main
from equigrad.engine import EngineError
from equigrad.engine.checkpoint import checkpoint_files, load_checkpoint
from equigrad.engine.run_lock import run_lock
from equigrad.recipes import tiny
from equigrad.tasks.backbones import SmallConv
from equigrad.tasks.classification import run as classification
from equigrad.tasks.run_folder import recipe_of_run, task_of
from quick_processes import quick_context

SETTINGS = [
    *("data.num_classes=5", "data.max_count=12", "data.imbalance_factor=6", "data.test_count=2"),
    *("training.schedule.epochs=1", "training.batch_size=8", "training.log_every=1"),
]
WORDS = ["train", "tiny:softmax_eql", *(word for setting in SETTINGS for word in ("--set", setting))]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert main([*WORDS, "--run", str(folder)]) == 0
    return folder


def change(run, tmp_path, **fields):
    """A copy of the run's recipe.json alone, with other content."""
    content = json.loads((run / "recipe.json").read_text())
    (tmp_path / "recipe.json").write_text(json.dumps({**content, **fields}))
    return tmp_path


def test_a_run_is_rebuilt_from_its_settings_after_the_defaults_of_the_recipe_changed(run, monkeypatch):
    def edited():
        raise AssertionError("the function of the recipe was called")

    before = json.loads((run / "evaluation.json").read_text())["result"]
    monkeypatch.setattr(tiny, "softmax_eql", edited)
    monkeypatch.setattr(SmallConv.__init__, "__defaults__", (99,))
    assert SmallConv().width == 99
    recipe = recipe_of_run(run)
    assert (recipe.backbone.width, recipe.data.num_classes, recipe.training.batch_size) == (16, 5, 8)
    assert task_of(recipe).evaluate(recipe, run).metrics == pytest.approx(
        {name: float("nan") if value is None else value for name, value in before.items()}, abs=1e-6, nan_ok=True
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"settings": {"type": "ClassificationRecipe"}}, "data: missing"),
        ({"settings": {"type": "subprocess:run", "args": ["touch", "hacked"]}}, "got subprocess:run"),
        ({"settings": 3}, "expected the fields starts and settings"),
        ({"format": 99}, "format 99 is not known here"),
    ],
)
def test_a_recipe_that_cannot_be_understood_is_one_line_and_nothing_runs(run, tmp_path, fields, message, capsys):
    folder = change(run, tmp_path, **fields)
    with pytest.raises(EngineError, match=message):
        recipe_of_run(folder)
    image = tmp_path / "image.png"
    Image.new("RGB", (8, 8)).save(image)
    for command in (["evaluate", str(folder)], ["predict", str(folder), str(image)]):
        assert main(command) == 1
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert message in error


def test_a_function_that_a_run_folder_names_is_not_called(run, tmp_path):
    victim = tmp_path / "written"
    arguments = {"url": "data:,x", "dst": str(victim)}
    folder = change(run, tmp_path, recipe="torch.hub:download_url_to_file", arguments=arguments, set=[])
    recipe_of_run(folder)
    main(["evaluate", str(folder)])
    main(["evaluate", str(folder), "--set", "method.loss.prior_power=2", "--output", str(tmp_path / "out")])
    assert not victim.exists()


def train_until_killed(words):
    classification.evaluate_model = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)
    main(words)


def test_a_kill_during_an_evaluation_loses_no_step(run, tmp_path, capfd):
    folder = tmp_path / "run"
    killed = quick_context().Process(target=train_until_killed, args=([*WORDS, "--run", str(folder)],))
    killed.start()
    killed.join(120)
    assert killed.exitcode == -signal.SIGKILL
    assert main([*WORDS, "--run", str(folder), "--resume"]) == 0
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    total = lines[-1]["step"]
    assert f"resuming at step {total} of {total}" in capfd.readouterr().out
    expected = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["loss"] for line in lines] == [line["loss"] for line in expected]
    assert (folder / "report.html").exists()
    ours, theirs = (json.loads((one / "evaluation.json").read_text()) for one in (folder, run))
    assert ours["categories"] == theirs["categories"]


def test_whatever_writes_in_the_folder_of_a_running_training_is_refused_and_changes_nothing(run, tmp_path, capsys):
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    variant = ["evaluate", str(run), "--set", "method.loss.prior_power=2", "--output", str(tmp_path / "out")]
    with run_lock(run, ["equigrad", "train", "tiny:softmax_eql"]):
        for command in ([*WORDS, "--run", str(run), "--resume"], ["evaluate", str(run)], variant):
            capsys.readouterr()
            assert main(command) == 1
            (line,) = capsys.readouterr().err.splitlines()
            assert f"equigrad: {run} is in use by process " in line
            assert line.endswith(": equigrad train tiny:softmax_eql")
    assert {file: file.read_bytes() for file in run.rglob("*") if file.is_file()} == before
    assert not (tmp_path / "out").exists()


@pytest.fixture
def small_disk(tmp_path):
    """Mounts a file system of so many bytes; tests that cannot are skipped."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(num_bytes):
        command = ["mount", "-t", "tmpfs", "-o", f"size={num_bytes}", "none", str(folder)]
        if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("only root can mount a small file system, and not in every container")
        return folder

    yield mount
    subprocess.run(["umount", str(folder)], capture_output=True, check=False)


@pytest.mark.parametrize(
    ("num_bytes", "file"),
    [
        (8_192, "run/"),
        (16_384, "statistics.npz: No space left on device; there is no checkpoint yet"),
        (1_900_000, "step_00000003.pt: No space left on device; the last"),
    ],
)
def test_a_full_disk_is_one_line_and_leaves_whole_files(num_bytes, file, small_disk, capsys):
    folder = small_disk(num_bytes) / "run"
    assert main([*WORDS, "--set", "training.checkpoint_every=1", "--run", str(folder)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("equigrad: ")
    assert "No space left on device" in line
    assert file in line
    assert not list(folder.rglob("*.part"))
    json.loads((folder / "recipe.json").read_text())
    if checkpoint_files(folder):
        steps = [load_checkpoint(checkpoint)["step"] for checkpoint in checkpoint_files(folder)]
        assert steps == [1, 2]
        assert str(checkpoint_files(folder)[-1]) in line
        subprocess.run(["mount", "-o", "remount,size=20m", str(folder.parent)], check=True)  # somebody makes room
        assert main([*WORDS, "--run", str(folder), "--resume"]) == 0


def test_a_cut_log_of_a_finished_run_is_noticed_when_it_is_reported_and_when_it_goes_on(run, tmp_path, capsys):
    folder = shutil.copytree(run, tmp_path / "run")
    log = folder / "metrics.jsonl"
    os.truncate(log, log.stat().st_size - 10)
    lost = f"warning: {log}: 1 logged line is missing, from step 4"
    assert main(["report", str(folder), "--output", str(tmp_path / "page.html")]) == 0
    assert lost in capsys.readouterr().err
    assert "1 logged line is missing" in (tmp_path / "page.html").read_text()
    assert main([*WORDS, "--run", str(folder), "--resume"]) == 0
    assert f"warning: {log}: 3 of 4 lines up to step 4 can be read" in capsys.readouterr().out


def test_evaluating_or_resuming_a_finished_run_changes_no_bit_of_its_results(run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "run")
    before = (folder / "evaluation.json").read_bytes()
    (folder / "evaluation.json").unlink()
    for command in (["evaluate", str(folder)], [*WORDS, "--run", str(folder), "--resume"]):
        assert main(command) == 0
        assert (folder / "evaluation.json").read_bytes() == before
