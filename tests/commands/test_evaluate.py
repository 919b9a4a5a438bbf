"""`equigrad evaluate` on the folder of a run; detections of other tools are in `test_detections.py`."""

import json
import shutil

import pytest
import torch

from commands.running_commands import equigrad
from equigrad.cli import main
from equigrad.engine.checkpoint import checkpoint_files, load_checkpoint
from quick_processes import run_as_torchrun


def test_evaluate_writes_metrics_and_categories(run, tmp_path):
    done = equigrad("evaluate", run, "--json", tmp_path / "result.json", "--csv", tmp_path / "categories.csv")
    assert done.code == 0, done.err
    result = json.loads((tmp_path / "result.json").read_text(), parse_constant=pytest.fail)
    assert 0 <= result["Overall"] <= 1
    assert result["Many"] is None  # no category of this small data has so many images
    assert "Many –" in done.out
    assert len((tmp_path / "categories.csv").read_text().splitlines()) == 6
    assert (run / "evaluation.json").exists()


def test_the_best_weights_are_evaluated_in_a_folder_of_their_own(run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "run")
    content = load_checkpoint(checkpoint_files(folder)[-1])
    for weights in content["model"].values():
        weights.zero_()
    torch.save({**content, "step": 1}, folder / "checkpoints" / "best.pt")
    before = (folder / "evaluation.json").read_bytes()
    done = equigrad("evaluate", folder, "--best", "--output", tmp_path / "best")
    assert done.code == 0, done.err
    assert "Overall 20.0" in done.out  # all logits are 0, so that one of five categories is right
    assert [file.name for file in checkpoint_files(tmp_path / "best")] == ["step_00000001.pt"]
    assert (folder / "evaluation.json").read_bytes() == before


def test_a_run_that_has_kept_no_best_weights_says_how_to_keep_them(run, tmp_path):
    done = equigrad("evaluate", run, "--best", "--output", tmp_path / "best")
    assert done.code == 1
    assert "has no checkpoints/best.pt: train with --set training.keep_best=true to keep it" in done.err
    assert not (tmp_path / "best").exists()


def test_ranks_share_the_test_and_one_of_them_writes(run, tmp_path):
    copy, files = tmp_path / "run", [tmp_path / name for name in ("alone.json", "shared.json")]
    shutil.copytree(run, copy)
    before = (copy / "recipe.json").read_bytes()
    assert equigrad("evaluate", copy, "--json", files[0]).code == 0
    (copy / "evaluation.json").unlink()
    line = ["evaluate", str(copy), "--workers", "1", "--batch-size", "3", "--json", str(files[1])]
    printed = run_as_torchrun(main, line, output=tmp_path / "output.txt")
    assert printed.count("Overall") == 1
    alone, shared = (json.loads(file.read_text()) for file in files)
    assert shared == pytest.approx(alone, abs=1e-6)
    assert (copy / "evaluation.json").exists()
    assert (copy / "recipe.json").read_bytes() == before
    assert not (copy / ".lock").exists()


def test_ranks_tell_once_why_they_cannot_evaluate(run, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    shutil.rmtree(copy / "checkpoints")
    with pytest.raises(AssertionError, match="has no checkpoint") as failure:
        run_as_torchrun(main, ["evaluate", str(copy)], output=tmp_path / "output.txt")
    assert str(failure.value).count("has no checkpoint") == 1
    assert "Traceback" not in str(failure.value)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [("--batch-size", "0", "test_batch_size must be above 0"), ("--workers", "-1", "num_workers must be 0 or more")],
)
def test_a_wrong_number_is_refused(option, value, message, run):
    done = equigrad("evaluate", run, option, value)
    assert done.code == 2
    assert message in done.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ("[]", "no format version"),
        ('{"recipe": "tiny:ce", "set": []}', "no format version; runs of earlier versions must be trained again"),
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
