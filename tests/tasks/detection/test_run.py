"""What a run of a detection recipe leaves in its folder, on one process, on two, and when it is stopped."""

import json
import math
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from detection_on_disk import with_text_ids, without_sizes
from equigrad.cli import main
from equigrad.data.detection.dataset import DetectionDataset
from equigrad.engine import EngineError, Schedule
from equigrad.engine.checkpoint import load_weights
from equigrad.evaluation.detection.prediction_shards import finished_images
from equigrad.recipes.catalogue import load_recipe
from equigrad.tasks.categories import TrainedCategories
from equigrad.tasks.detection.data import OpenImages
from equigrad.tasks.detection.run import build_model, build_sampler, evaluate, trained_model
from equigrad.tasks.detection.second_stages import NewClassifier
from equigrad.tasks.run_folder import recipe_of_run
from equigrad.tasks.smoke_test.generated_objects import write_openimages
from quick_processes import run_as_torchrun
from running import load, train
from small_detection_data import TRAIN, data_settings, write_small_data

SMALL, KNOWN = "small_detection_data:small", "small_detection_data:known"
RESULTS = ("evaluation.json", "report.html", "predictions/predictions-0000-00000.npz")


class StoppingObjects:
    """The data of a recipe, whose images bring a SIGTERM, as a scheduler would send it."""

    def __init__(self, data, after=0):
        self.data, self.left = data, after

    def load(self, *, with_masks):
        sets = self.data.load(with_masks=with_masks)

        def transform(image, target):
            self.left -= 1
            if self.left < 0:
                signal.raise_signal(signal.SIGTERM)
            return image, target

        train = DetectionDataset(sets.train.data, self.data.images, transform, with_masks=with_masks)
        return replace(sets, train=train)


def times_shown(sampler, num_epochs=40):
    """How often each training image comes."""
    shown = np.zeros(len(TRAIN), dtype=int)
    for epoch in range(num_epochs):
        sampler.set_epoch(epoch)
        shown += np.bincount(list(sampler), minlength=len(TRAIN))
    return shown


def evaluation_of(folder):
    return json.loads((folder / "evaluation.json").read_text())


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return data_settings(write_small_data(tmp_path_factory.mktemp("data")))


@pytest.fixture(scope="module")
def finished(tmp_path_factory, settings):
    """A run of the detector that knows all objects but jugs."""
    folder = tmp_path_factory.mktemp("runs") / "known"
    named = load_recipe(KNOWN, settings)
    train(named.recipe, folder, source=named.source())
    return folder


def test_a_detector_that_finds_all_cups_and_urns_and_no_jug_has_the_ap_of_that(finished):
    result = evaluation_of(finished)["result"]
    assert (result["AP"], result["APr"], result["APc"], result["APf"]) == pytest.approx((2 / 3, 1, 0, 1))
    assert result["APl"] is None  # there is nothing large


def test_a_run_keeps_a_row_for_each_category_also_for_one_that_no_test_image_has(finished):
    rows = evaluation_of(finished)["categories"]
    assert [row["name"] for row in rows] == ["cup", "jug", "urn", "vat"]
    assert [row["count"] for row in rows] == [7, 3, 1, 1]
    assert [row["group"] for row in rows] == ["frequent", "common", "rare", "rare"]
    assert [row["AP"] for row in rows] == [1, 0, 1, None]


def test_a_run_folder_has_a_page_predictions_and_its_categories(finished):
    assert all((finished / file).exists() for file in RESULTS)
    assert "1 frequent, 1 common, 2 rare" in (finished / "report.html").read_text()
    assert finished_images(finished / "predictions").tolist() == [10, 11, 12, 13, 14]
    assert TrainedCategories.load(finished).instance_counts.tolist() == [7, 3, 1, 1]


def test_predictions_of_a_run_evaluated_by_themselves_say_the_same(finished, settings, tmp_path):
    annotations = settings[1].removeprefix("data.test=")
    line = ["evaluate", str(finished / "predictions"), "--annotations", annotations, "--json", str(tmp_path / "a.json")]
    assert main(line) == 0
    assert json.loads((tmp_path / "a.json").read_text()) == evaluation_of(finished)["result"]


def test_a_run_on_files_with_texts_as_ids_and_without_sizes_is_the_same_and_writes_these_ids(
    finished, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(write_small_data(tmp_path))
    for name in ("train", "test"):
        content = json.loads(Path(f"{name}.json").read_text())
        Path(f"{name}.json").write_text(json.dumps(without_sizes(with_text_ids(content))))
    named = load_recipe(KNOWN, data_settings(Path()))
    train(named.recipe, tmp_path / "run", source=named.source())
    assert evaluation_of(tmp_path / "run")["result"] == evaluation_of(finished)["result"]
    assert TrainedCategories.load(tmp_path / "run").ids == ("kind-003", "kind-005", "kind-008", "kind-009")
    assert main(["evaluate", "run/predictions", "--annotations", "test.json", "--json", "a.json"]) == 0
    assert json.loads(Path("a.json").read_text()) == evaluation_of(finished)["result"]
    assert main(["evaluate", "run", "--recipe", KNOWN]) == 0
    assert finished_images(tmp_path / "run" / "predictions").tolist()[0] == "image-010"


def test_evaluating_a_run_again_says_the_same(finished, capsys, tmp_path):
    before = evaluation_of(finished)
    assert main(["evaluate", str(finished), "--recipe", KNOWN, "--json", str(tmp_path / "a.json")]) == 0
    assert "AP 66.7" in capsys.readouterr().out
    assert json.loads((tmp_path / "a.json").read_text()) == before["result"]
    assert evaluation_of(finished) == before


def test_a_detector_from_recipe_to_folder(settings, tmp_path):
    folder = tmp_path / "run"
    named = load_recipe(SMALL, settings)
    assert not train(named.recipe, folder, source=named.source()).interrupted
    result = evaluation_of(folder)["result"]
    assert {"AP", "AP50", "APr", "APc", "APf", "AP-fixed"} <= set(result)
    assert evaluate(recipe_of_run(folder), folder).metrics == pytest.approx(
        {name: math.nan if value is None else value for name, value in result.items()}, nan_ok=True
    )
    with np.load(folder / "statistics.npz") as history:
        assert {array.shape[-1] for name, array in history.items() if name != "steps"} == {4}


def test_a_part_of_the_test_set_is_evaluated_while_the_whole_waits_for_the_end(settings, tmp_path):
    named = load_recipe(SMALL, [*settings, "check_images=2", "training.evaluate_every=1", "training.schedule.epochs=2"])
    train(named.recipe, tmp_path, source=named.source())
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    checked = [line for line in lines if "check" in line]
    assert [line["epoch"] for line in checked] == [1, 2]
    assert ["evaluation" in line for line in checked] == [False, True]
    assert checked[-1]["evaluation"] == evaluation_of(tmp_path)["result"]
    assert finished_images(tmp_path / "predictions").tolist() == [10, 11, 12, 13, 14]
    assert "a part of the test set was evaluated: AP " in (tmp_path / "report.html").read_text()


def test_a_stopped_run_goes_on_and_ends_with_the_weights_of_one_that_was_not(settings, tmp_path):
    recipe = load(SMALL, settings)
    train(recipe, tmp_path / "whole")
    stopping = replace(recipe, data=StoppingObjects(recipe.data, after=5))
    assert train(stopping, tmp_path / "stopped").interrupted
    assert not any((tmp_path / "stopped" / file).exists() for file in RESULTS)
    assert not train(recipe, tmp_path / "stopped", resume=True).interrupted
    whole, stopped = load_weights(tmp_path / "whole"), load_weights(tmp_path / "stopped")
    assert all(torch.equal(whole[name], stopped[name]) for name in whole)
    assert evaluation_of(tmp_path / "whole") == evaluation_of(tmp_path / "stopped")


def test_results_of_an_earlier_end_go_when_a_longer_run_is_stopped(finished, settings, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    recipe = load(KNOWN, settings)
    longer = replace(recipe, training=replace(recipe.training, schedule=Schedule(epochs=3)))
    stopping = replace(longer, data=StoppingObjects(recipe.data))
    assert train(stopping, folder, resume=True).interrupted
    assert not any((folder / file).exists() for file in RESULTS)
    assert not train(longer, folder, resume=True).interrupted
    assert all((folder / file).exists() for file in RESULTS)


def test_a_run_that_is_resumed_at_its_end_is_tested_again(finished, settings, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    (folder / "evaluation.json").unlink()
    train(load(KNOWN, settings), folder, resume=True)
    assert evaluation_of(folder) == evaluation_of(finished)


def test_a_folder_with_anything_in_it_is_no_place_for_a_new_run(settings, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(EngineError, match=f"{tmp_path}"):
        train(load(KNOWN, settings), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_repeat_factors_show_rare_images_more_often(settings):
    recipe = load(SMALL, [*settings, "sampler=repeat_factor", "repeat_threshold=0.5"])
    shown = times_shown(build_sampler(recipe, recipe.data.load(with_masks=False).train))
    # Of 8 images 1 has an urn: sqrt(0.5 / 0.125) = 2; cups are in most images and repeat nothing.
    assert shown[TRAIN.index([3, 5, 8])] == 80
    assert shown[TRAIN.index([3])] == 40


def test_class_balanced_order_shows_each_category_as_often(settings):
    recipe = load(SMALL, [*settings, "sampler=class_balanced"])
    shown = times_shown(build_sampler(recipe, recipe.data.load(with_masks=False).train))
    with_vat, empty = TRAIN.index([3, 9]), TRAIN.index([])
    assert shown[empty] == 0
    assert shown[with_vat] > 2 * shown[TRAIN.index([3])]


def test_an_image_that_cannot_be_read_stops_the_training_or_is_skipped(settings, tmp_path):
    root = Path(settings[0].removeprefix("data.train=")).parent
    shutil.copytree(root, tmp_path / "data")
    (tmp_path / "data" / "images" / "train" / "12.png").write_bytes(b"rubbish")
    damaged = data_settings(tmp_path / "data")
    with pytest.raises(EngineError, match=r"train/12\.png"):
        train(load(KNOWN, damaged), tmp_path / "stops")
    result = train(load(KNOWN, [*damaged, "training.on_error=skip"]), tmp_path / "skips")
    assert [Path(name).name for name in result.skipped] == ["12.png"]


def test_weights_of_other_categories_are_refused(settings, tmp_path):
    recipe = load(SMALL, [*settings, "training.schedule.epochs=0.25"])
    train(recipe, tmp_path / "run")
    fewer = TrainedCategories(("a", "b"), ("rare", "rare"), np.array([1, 1]), np.array([1, 1]))
    with pytest.raises(EngineError, match="does not fit its recipe: size mismatch"):
        trained_model(recipe, fewer, tmp_path / "run")


def test_a_second_stage_without_a_first_is_refused(settings):
    recipe = replace(load(SMALL, settings), second_stage=NewClassifier())
    with pytest.raises(EngineError, match="give its folder with --init RUN"):
        build_model(recipe, TrainedCategories.of(recipe.data.load(with_masks=False).train.data))


def test_a_run_with_parts_of_a_user_is_not_rebuilt_without_being_asked_to(finished, capsys):
    with pytest.raises(EngineError, match=r"recipe\.json: detector: expected RetinaNet .*, got KnownDetector"):
        recipe_of_run(finished)
    assert main(["evaluate", str(finished)]) == 1
    assert "got KnownDetector" in capsys.readouterr().err


@pytest.mark.parametrize(("expand", "ap"), [("true", 1.0), ("false", 10 / 15)])
def test_a_run_on_openimages_has_ap_of_five_groups(tmp_path, expand, ap):
    root = tmp_path / "openimages"
    write_openimages(root)
    recipe = replace(load(KNOWN), data=OpenImages(root, root / "images", expand_detections=expand == "true"))
    train(recipe, tmp_path / "run")
    evaluation = evaluation_of(tmp_path / "run")
    assert list(evaluation["result"]) == ["AP", "AP1", "AP2", "AP3", "AP4", "AP5"]
    assert evaluation["result"]["AP"] == pytest.approx(ap)
    assert len(evaluation["categories"]) == 500
    assert (tmp_path / "run" / "report.html").exists()


def evaluate_in_own_folder(root):
    os.chdir(root / os.environ["RANK"])
    return main(["evaluate", "run", "--recipe", KNOWN, "--batch-size", "2"])


def test_processes_without_a_common_folder_evaluate_as_one_process_does(finished, tmp_path):
    for rank in ("0", "1"):
        shutil.copytree(finished, tmp_path / rank / "run")
        (tmp_path / rank / "run" / "evaluation.json").unlink()
    run_as_torchrun(evaluate_in_own_folder, tmp_path, output=tmp_path / "output.txt")
    assert evaluation_of(tmp_path / "0" / "run") == evaluation_of(finished)
    assert finished_images(tmp_path / "0" / "run" / "predictions").tolist() == [10, 11, 12, 13, 14]
    assert not (tmp_path / "1" / "run" / "evaluation.json").exists()


def test_two_processes_test_each_image_once_and_as_one_process_does(finished, settings, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    for file in RESULTS:
        (folder / file).unlink()
    # Nothing is left to train: the two test the same weights, 3 images and 2.
    line = ["train", KNOWN, "--folder", str(folder), "--resume"]
    line += [word for setting in settings for word in ("--set", setting)]
    run_as_torchrun(main, line, output=tmp_path / "output.txt")
    shards = sorted((folder / "predictions").glob("*.npz"))
    images = [np.load(shard)["image_ids"].tolist() for shard in shards]
    assert images == [[10, 12, 14], [11, 13]]
    assert evaluation_of(folder) == evaluation_of(finished)
