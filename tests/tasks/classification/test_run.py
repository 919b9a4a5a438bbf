"""What a run of a classification recipe leaves in its folder, on one process, on two, and when it is stopped."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from equigrad.engine import Schedule
from equigrad.recipes.catalogue import load_recipe
from equigrad.tasks.classification.data import GlyphImages
from running import load, train

NAME = "tiny:softmax_eql"
# 15 test images: two processes share them unevenly.
SETTINGS = [
    *("data.num_classes=5", "data.max_count=12", "data.imbalance_factor=6", "data.test_count=3"),
    *("training.schedule.epochs=1", "training.batch_size=8", "training.schedule.warmup.length=1"),
]
RESULTS = ("evaluation.json", "predictions/test.npz", "report.html")


class StoppingImages:
    """The images of a recipe, whose reading brings a SIGTERM, as a scheduler would send it."""

    def __init__(self, images: GlyphImages) -> None:
        self.images = images

    def load(self):
        train_set, test_set = self.images.load()
        plain = train_set.transform

        def transform(image):
            signal.raise_signal(signal.SIGTERM)
            return plain(image)

        train_set.transform = transform
        return train_set, test_set


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


@pytest.mark.slow
def test_two_processes_evaluate_each_image_once_and_as_one_process_does(tmp_path):
    folder = tmp_path / "run"
    named = load_recipe(NAME, SETTINGS)
    train(named.recipe, folder, source=named.source())
    evaluation, predictions = results(folder)
    for file in RESULTS:
        (folder / file).unlink()
    # Nothing is left to train: the two evaluate the same weights.
    line = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "equigrad"]
    line += ["train", NAME, "--folder", str(folder), "--resume"]
    line += [word for setting in SETTINGS for word in ("--set", setting)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(line, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Overall") == 1  # one process speaks
    shared_evaluation, shared_predictions = results(folder)
    assert shared_evaluation["result"] == pytest.approx(evaluation["result"], abs=1e-6, nan_ok=True)
    assert shared_evaluation["categories"] == evaluation["categories"]
    assert len(shared_predictions["paths"]) == 15
    for name, expected in predictions.items():
        if name == "scores":
            np.testing.assert_allclose(shared_predictions[name], expected, atol=1e-6)
        else:
            np.testing.assert_array_equal(shared_predictions[name], expected)
