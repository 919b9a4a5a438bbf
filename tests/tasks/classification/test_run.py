"""What a run of a classification recipe leaves in its folder, on one process, on two, and when it is stopped."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from equigrad.cli import main
from equigrad.engine import EngineError, Schedule
from equigrad.engine.checkpoint import load_weights
from equigrad.recipes.catalogue import load_recipe
from equigrad.tasks.classification.data import GlyphImages
from equigrad.tasks.classification.run import build_model, evaluate, evaluate_model
from images_on_disk import write_images
from quick_processes import run_as_torchrun
from running import load, train
from stopping_glyphs import load_stopping

NAME = "tiny:softmax_eql"
# 15 test images: two processes share them unevenly.
SETTINGS = [
    *("data.num_classes=5", "data.max_count=12", "data.imbalance_factor=6", "data.test_count=3"),
    *("training.schedule.epochs=1", "training.batch_size=8", "training.schedule.warmup.length=1"),
]
RESULTS = ("evaluation.json", "predictions/test.npz", "report.html")


class StoppingImages:
    """The images of a recipe, whose reading brings a SIGTERM."""

    def __init__(self, images: GlyphImages) -> None:
        self.images = images

    def load(self):
        return load_stopping(self.images)


def results(folder: Path):
    with np.load(folder / "predictions" / "test.npz", allow_pickle=False) as stored:
        return json.loads((folder / "evaluation.json").read_text()), dict(stored)


def test_a_stopped_run_has_no_results_and_a_resumed_one_has(tmp_path):
    folder, recipe = tmp_path / "run", load(NAME, SETTINGS)
    assert not train(recipe, folder).interrupted
    assert all((folder / file).exists() for file in RESULTS)
    longer = replace(recipe, training=replace(recipe.training, schedule=Schedule(epochs=2)))
    assert train(replace(longer, data=StoppingImages(recipe.data)), folder, resume=True).interrupted
    assert not any((folder / file).exists() for file in RESULTS)  # those of the shorter run would mislead
    assert not train(longer, folder, resume=True).interrupted
    assert all((folder / file).exists() for file in RESULTS)


def test_two_processes_evaluate_each_image_once_and_as_one_process_does(tmp_path):
    folder = tmp_path / "run"
    named = load_recipe(NAME, SETTINGS)
    train(named.recipe, folder, source=named.source())
    evaluation, predictions = results(folder)
    for file in RESULTS:
        (folder / file).unlink()
    # Nothing is left to train: the two evaluate the same weights.
    words = ["train", NAME, "--folder", str(folder), "--resume"]
    words += [word for setting in SETTINGS for word in ("--set", setting)]
    shown = run_as_torchrun(main, words, output=tmp_path / "output.txt")
    assert shown.count("Overall") == 1  # one process speaks
    shared_evaluation, shared_predictions = results(folder)
    assert shared_evaluation["result"] == pytest.approx(evaluation["result"], abs=1e-6, nan_ok=True)
    assert shared_evaluation["categories"] == evaluation["categories"]
    assert len(shared_predictions["paths"]) == 15
    for name, expected in predictions.items():
        if name == "scores":
            np.testing.assert_allclose(shared_predictions[name], expected, atol=1e-6)
        else:
            np.testing.assert_array_equal(shared_predictions[name], expected)


def test_groups_have_the_limits_that_the_recipe_names():
    recipe = load(NAME, ["data.num_classes=3", "data.max_count=100", "data.imbalance_factor=25", "data.test_count=2"])
    train_set, test_set = recipe.data.load()
    assert train_set.category_counts.tolist() == [100, 20, 4]
    model = build_model(recipe, train_set.category_counts).eval()
    for shot_groups, names in (("code", {"Medium", "Few"}), ("paper", {"Many", "Few"})):
        metrics = evaluate_model(replace(recipe, shot_groups=shot_groups), model, train_set, test_set).metrics
        assert {name for name in ("Many", "Medium", "Few") if not np.isnan(metrics.get(name, np.nan))} == names


def cached(folder, *settings):
    frozen = ["training.frozen=backbone", f"feature_cache={folder}"]
    return load(NAME, [*SETTINGS, *frozen, *settings])


def test_a_run_on_cached_features_is_evaluated_on_images_alike(tmp_path):
    recipe = cached(tmp_path / "features")
    train(recipe, tmp_path / "run")
    trained, predicted = results(tmp_path / "run")
    evaluate(recipe, tmp_path / "run")
    evaluated, again = results(tmp_path / "run")
    assert evaluated["result"] == pytest.approx(trained["result"], abs=1e-5)
    assert again["paths"].tolist() == predicted["paths"].tolist()


def test_runs_share_the_features_of_a_frozen_backbone(tmp_path):
    train(cached(tmp_path / "features"), tmp_path / "first")
    written = {file: file.stat().st_mtime_ns for file in (tmp_path / "features").iterdir()}
    assert len(written) == 2  # of training and of test images
    train(cached(tmp_path / "features", "method.loss.prior_power=0.5"), tmp_path / "second")
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "features").iterdir()} == written


def test_only_what_follows_cached_features_is_trained(tmp_path):
    recipe = cached(tmp_path / "features")
    torch.manual_seed(0)
    train(recipe, tmp_path / "short")
    longer = replace(recipe, training=replace(recipe.training, schedule=Schedule(epochs=2)))
    train(longer, tmp_path / "long")
    short, long = load_weights(tmp_path / "short"), load_weights(tmp_path / "long")
    changed = {name.partition(".")[0] for name in short if not torch.equal(short[name], long[name])}
    assert changed == {"classifier", "classification_loss"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["training.frozen="], "--set training.frozen=backbone"),
        (["backbone=ResNet"], "a frozen backbone needs weights: --set backbone.weights=FILE"),
    ],
)
def test_cached_features_need_a_backbone_that_is_frozen_and_has_weights(tmp_path, settings, message):
    with pytest.raises(ValueError, match=message):
        train(cached(tmp_path / "features", *settings), tmp_path / "run")


def test_a_damaged_image_stops_a_run_on_cached_features_or_is_left_out(tmp_path, capsys):
    write_images(tmp_path / "photos", {"cat": 4, "dog": 4}, size=16)
    (tmp_path / "photos" / "cat" / "1.png").write_bytes(b"no image")
    write_images(tmp_path / "test", {"cat": 1, "dog": 1}, size=16, seed=1)
    settings = [f"data.train={tmp_path}/photos", f"data.test={tmp_path}/test", f"feature_cache={tmp_path}/features"]
    settings += ["image_size=16", "training.schedule.length.min_epochs=1", "training.schedule.length.min_steps=1"]
    with pytest.raises(EngineError, match=r"cat/1.png: cannot read the image .*; --set training.on_error=skip leaves"):
        train(load("own_data:classification", settings), tmp_path / "stops")
    train(load("own_data:classification", [*settings, "training.on_error=skip"]), tmp_path / "skips")
    printed = capsys.readouterr().out
    assert "cat/1.png: cannot read the image" in printed
    assert "data: 7 images, 2 categories" in printed
