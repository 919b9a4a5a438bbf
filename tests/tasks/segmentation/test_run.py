"""What a run of a segmentation recipe leaves in its folder, on one process, on two, and when it is stopped."""

import json
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from equigrad.cli import main
from equigrad.data.images.sources import ImageSource
from equigrad.engine import EngineError, Schedule
from equigrad.models.segmentation.sliding_window import SlidingWindow, WholeImage
from equigrad.recipes.catalogue import load_recipe
from equigrad.statistics import find_statistics
from equigrad.tasks.run_folder import recipe_of_run
from equigrad.tasks.segmentation.glyph_scenes import GlyphScenes
from equigrad.tasks.segmentation.run import build_model, evaluate, predictor, trained_model
from quick_processes import run_as_torchrun
from running import load, train

NAME = "tiny:segmentation"
# 9 test scenes: two processes share them unevenly.
SETTINGS = [
    *("data.num_glyphs=5", "data.max_count=16", "data.imbalance_factor=8", "data.test_count=3"),
    *("training.schedule.epochs=2", "training.batch_size=8", "training.schedule.warmup.length=1"),
]
KEPT_MAPS = [*SETTINGS, "keeps_label_maps=true"]
RESULTS = ("evaluation.json", "predictions/test.npz", "report.html")


class StoppingScenes:
    """The scenes of a recipe, whose reading brings a SIGTERM, as a scheduler would send it."""

    base, group_by = None, "count"

    def __init__(self, scenes: GlyphScenes) -> None:
        self.scenes = scenes

    def load(self):
        train_set, test_set = self.scenes.load()
        plain = train_set.transform

        def transform(image, labels):
            signal.raise_signal(signal.SIGTERM)
            return plain(image, labels)

        train_set.transform = transform
        return train_set, test_set


def results(folder: Path):
    with np.load(folder / "predictions" / "test.npz", allow_pickle=False) as stored:
        return json.loads((folder / "evaluation.json").read_text()), dict(stored)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run with its label maps kept."""
    folder, named = tmp_path_factory.mktemp("runs") / "run", load_recipe(NAME, KEPT_MAPS)
    train(named.recipe, folder, source=named.source())
    return folder


def test_a_run_keeps_metrics_with_the_papers_names_and_a_row_for_each_category(finished):
    evaluation, _ = results(finished)
    names = [f"{metric}{group}" for metric in ("mIoU", "mAcc") for group in ("", 1, 2, 3)]
    assert list(evaluation["result"]) == [*names, "aAcc"]
    categories = evaluation["categories"]
    assert categories[0]["name"] == "background"
    assert sorted(category["group"] for category in categories) == ["head"] * 2 + ["medium"] * 2 + ["tail"] * 2
    assert {"IoU", "Acc"} <= set(categories[0])


def test_counts_are_training_pixels(finished):
    evaluation, _ = results(finished)
    train_set, _ = recipe_of_run(finished).data.load()
    pixels = sum(np.bincount(train_set.data.read_labels(i).ravel(), minlength=6) for i in range(len(train_set)))
    assert [category["count"] for category in evaluation["categories"]] == pixels.tolist()


def test_the_page_of_a_run_shows_the_groups(finished):
    page = (finished / "report.html").read_text()
    assert "2 head, 2 medium, 2 tail" in page
    assert '"groupNames":["head","medium","tail"]' in page.replace(": ", ":").replace(", ", ",")


def test_the_label_maps_on_request_are_what_was_counted(finished):
    _, predictions = results(finished)
    _, test_set = recipe_of_run(finished).data.load()
    confusion = np.zeros((6, 6), dtype=np.int64)
    for index, name in enumerate(test_set.data.names):
        predicted = np.array(Image.open(finished / "predictions" / "label_maps" / f"{name}.png"))
        np.add.at(confusion, (test_set.data.read_labels(index), predicted), 1)
    np.testing.assert_array_equal(confusion, predictions["confusion"])
    assert predictions["class_names"].tolist() == list(test_set.class_names)


def test_evaluating_a_run_again_says_the_same(finished):
    evaluation, _ = results(finished)
    assert evaluate(recipe_of_run(finished), finished).metrics == pytest.approx(evaluation["result"], abs=1e-6)


def test_a_prediction_is_an_overlay_and_a_line_with_the_largest_categories(finished):
    recipe = recipe_of_run(finished)
    _, test_set = recipe.data.load()
    image = test_set.data.read_image(0).resize((90, 70))
    (predicted,) = predictor(recipe, finished)([ImageSource(pixels=image)])
    assert predicted.draw().width > 400
    assert "background " in predicted.summary
    assert " %" in predicted.summary


def test_an_interrupted_run_predicts_too(tmp_path):
    folder, recipe = tmp_path / "run", load(NAME, SETTINGS)
    assert train(replace(recipe, data=StoppingScenes(recipe.data)), folder).interrupted
    assert not any((folder / file).exists() for file in RESULTS)
    (predicted,) = predictor(recipe, folder)([ImageSource(pixels=Image.new("RGB", (64, 64)))])
    assert predicted.label_map.shape == (64, 64)


def test_a_stopped_run_has_no_results_and_a_resumed_one_has(tmp_path):
    folder, recipe = tmp_path / "run", load(NAME, [*SETTINGS, "keeps_label_maps=true"])
    assert not train(recipe, folder).interrupted
    assert all((folder / file).exists() for file in RESULTS)
    longer = replace(recipe, training=replace(recipe.training, schedule=Schedule(epochs=3)))
    assert train(replace(longer, data=StoppingScenes(recipe.data)), folder, resume=True).interrupted
    assert not any((folder / file).exists() for file in (*RESULTS, "predictions/label_maps"))
    assert not train(longer, folder, resume=True).interrupted
    assert all((folder / file).exists() for file in RESULTS)


def test_a_run_that_is_resumed_at_its_end_is_tested_again(finished, tmp_path):
    folder = tmp_path / "run"
    recipe = load(NAME, SETTINGS)
    train(recipe, folder)
    evaluation, _ = results(folder)
    (folder / "evaluation.json").unlink()
    train(recipe, folder, resume=True)
    assert results(folder)[0] == evaluation


@pytest.mark.parametrize(("auxiliary", "num_statistics"), [("ce", 1), ("method", 2), ("none", 1)])
def test_the_auxiliary_head_has_statistics_of_its_own_or_none(auxiliary, num_statistics):
    model = build_model(load(NAME, [f"auxiliary={auxiliary}"]), np.array([5, 4, 3]))
    losses = model(torch.zeros(2, 3, 32, 32, dtype=torch.uint8), {"labels": torch.zeros(2, 32, 32, dtype=torch.int64)})
    assert ("auxiliary_loss" in losses) == (auxiliary != "none")
    assert len(find_statistics(model)) == num_statistics


def test_tiles_give_the_loss_of_the_whole_and_the_decoders_size_another():
    labels = torch.arange(2 * 32 * 32).view(2, 32, 32) % 3
    losses = []
    for loss_at in ("labels", "tiles", "decoder"):
        torch.manual_seed(0)
        model = build_model(load(NAME, [f"loss_at={loss_at}"]), np.array([5, 4, 3]))
        model.head.classifier.dropout.p = 0.0
        images = torch.randint(0, 256, (2, 3, 32, 32), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
        losses.append(model(images, {"labels": labels})["loss"].item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    assert losses[2] != pytest.approx(losses[0], rel=1e-5)


def test_inference_sees_images_as_the_data_says():
    whole = load("semantic_segmentation:ade20k_pspnet_r50", ["backbone.weights=none"])
    inference = build_model(whole, np.ones(150)).inference
    assert isinstance(inference, WholeImage)
    assert (inference.scale.short_side, inference.scale.long_side) == (512, 2048)
    sliding = build_model(replace(whole, window=300), np.ones(150)).inference
    assert isinstance(sliding, SlidingWindow)
    assert (sliding.window, sliding.stride, sliding.scale.short_side) == (300, 200, 512)
    assert build_model(load(NAME), np.ones(9)).inference.scale is None


def test_weights_of_another_recipe_are_refused(finished):
    recipe = recipe_of_run(finished)
    with pytest.raises(EngineError, match="does not fit its recipe: size mismatch for classification_loss"):
        trained_model(recipe, np.array([5, 4, 3]), finished)


def test_two_processes_evaluate_a_run_in_batches_as_one_process_does(finished, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    shutil.rmtree(folder / "predictions")
    line = ["evaluate", str(folder), "--workers", "1", "--batch-size", "2"]
    assert run_as_torchrun(main, line, output=tmp_path / "output.txt").count("aAcc") == 1
    (evaluation, predictions), (shared, shared_predictions) = results(finished), results(folder)
    assert shared["result"] == pytest.approx(evaluation["result"], abs=1e-3)
    assert shared_predictions["confusion"].sum() == predictions["confusion"].sum()
    maps = [sorted(file.name for file in (run / "predictions/label_maps").iterdir()) for run in (finished, folder)]
    assert maps[0] == maps[1]


def test_two_processes_evaluate_each_image_once_and_as_one_process_does(finished, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    evaluation, predictions = results(folder)
    for file in RESULTS:
        (folder / file).unlink()
    # Nothing is left to train: the two evaluate the same weights.
    line = ["train", NAME, "--folder", str(folder), "--resume"]
    line += [word for setting in KEPT_MAPS for word in ("--set", setting)]
    printed = run_as_torchrun(main, line, output=tmp_path / "output.txt")
    assert printed.count("aAcc") == 1  # one process speaks
    shared_evaluation, shared_predictions = results(folder)
    assert shared_evaluation["result"] == pytest.approx(evaluation["result"], abs=1e-3)
    assert shared_predictions["confusion"].sum() == predictions["confusion"].sum()
