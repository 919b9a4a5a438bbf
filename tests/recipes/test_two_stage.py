"""Rows of the two-stage tables: what each is, and second stages and NorCal as a user starts them."""

import json

import numpy as np
import pytest
import torch

import equigrad
from equigrad.cli import main
from equigrad.data.frequency import load_frequencies
from equigrad.engine import EngineError, load_weights
from equigrad.models.detection.two_stage.second_stages import CLASSIFIER
from equigrad.recipes.catalogue import all_recipes, rows_of_recipe
from equigrad.recipes.tables import TABLES
from equigrad.tasks.categories import TrainedCategories
from equigrad.tasks.detection.run import build_model, trained_model
from equigrad.tasks.detection.second_stages import NewClassifier, NewScales
from equigrad.tasks.losses import CategoryCounts
from equigrad.tasks.run_folder import recipe_of_run
from equigrad.tasks.scores import NorCal
from quick_processes import run_as_torchrun
from running import load

RECIPES = [name for name, _ in all_recipes() if name.startswith("two_stage:")]
ROWS = [(name, *settings) for name in RECIPES for settings in rows_of_recipe(name)]
SMALL = "tests.recipes.small_two_stage"
OWN = ["--recipe", f"{SMALL}:plain"]  # of the first stages, to change their `method` by its name


def lvis_categories():
    """With the counts of LVIS v1."""
    real = load_frequencies("lvis_v1")
    return TrainedCategories(real.names, ("rare",) * len(real), real.image_counts, real.instance_counts)


@pytest.mark.parametrize(("name", "setting"), ROWS)
def test_every_row_has_its_published_numbers(name, setting):
    recipe = load(name, [setting])
    published = TABLES[recipe.table][recipe.row]
    groups = ["AP1", "AP2", "AP3", "AP4", "AP5"] if "openimages" in name else ["APr", "APc", "APf"]
    assert list(published)[: 1 + len(groups)] == ["AP", *groups]
    assert "APb" not in published or recipe.detector.with_masks


def test_every_published_row_has_a_recipe():
    rows = {}
    for name, setting in ROWS:
        recipe = load(name, [setting])
        rows.setdefault(recipe.table, set()).add(recipe.row)
    assert rows == {table: set(TABLES[table]) for table in rows}
    assert len(rows) == len(RECIPES) == 14
    assert len(ROWS) == 67  # with softmax_eql_cosine and seesaw_linear, which share their rows


@pytest.mark.parametrize(
    ("name", "length", "decays"),
    [
        ("lvis_mask_rcnn_r50", 24, (16, 22)),
        ("lvis_mask_rcnn_r101_3x", 36, (28, 34)),
        ("components", 12, (8, 11)),
        ("mappings", 12, (8, 11)),
        ("better_representation", 12, (8, 11)),
        ("lvis_faster_rcnn_r50", 24, (16, 22)),
    ],
)
def test_settings_are_the_published_ones(name, length, decays):
    recipe = load(f"two_stage:{name}")
    training, schedule = recipe.training, recipe.training.schedule
    assert (training.optimizer.lr, training.optimizer.momentum, training.optimizer.weight_decay) == (0.02, 0.9, 1e-4)
    assert (training.batch_size, training.max_grad_norm) == (16, None)
    assert (schedule.epochs, schedule.decay.milestones) == (length, decays)
    assert [schedule.factor(step, 6212, total=6212 * length) for step in (0, 500)] == [0.001, 1.0]
    assert recipe.data.benchmark == "lvis"
    assert not recipe.data.keep_empty
    assert not recipe.detector.class_agnostic


def test_openimages_has_steps_and_one_size():
    recipe = load("two_stage:openimages_faster_rcnn_r101")
    schedule = recipe.training.schedule
    assert [schedule.factor(step, 10**5, 180_000) for step in (500, 120_000, 160_000)] == pytest.approx([1, 0.1, 0.01])
    assert schedule.total_steps(10**5) == 180_000
    assert (recipe.preprocessing.short, recipe.preprocessing.test_short, recipe.preprocessing.long) == (
        (800,),
        800,
        1333,
    )
    assert not recipe.detector.with_masks
    assert not recipe.data.expand_detections


@pytest.mark.parametrize(
    ("name", "method", "sampler", "second_stage", "steps"),
    [
        ("lvis_mask_rcnn_r50", "bags", "random", None, 24_000),
        ("lvis_mask_rcnn_r50", "rfs", "repeat_factor", None, 24_000),
        ("decoupled", "crt", "class_balanced", NewClassifier, 75_000),
        ("decoupled", "lws", "class_balanced", NewScales, 75_000),
        ("decoupled", "bags", "random", NewClassifier, 12_000),
        ("better_representation", "crt_eql", "random", NewClassifier, 12_000),
        ("better_representation", "lws_eql", "random", NewScales, 12_000),
        ("lvis_faster_rcnn_r50", "norcal", "repeat_factor", None, 24_000),
        ("lvis_faster_rcnn_r50", "crt", "class_balanced", NewClassifier, 12_000),
        ("lvis_faster_rcnn_r101", "bags", "class_balanced", NewClassifier, 12_000),
    ],
)
def test_a_row_has_the_sampler_and_the_stage_of_its_caption(name, method, sampler, second_stage, steps):
    recipe = load(f"two_stage:{name}", [f"method={method}"])
    assert recipe.sampler == sampler
    assert (type(recipe.second_stage) if recipe.second_stage else None) is second_stage
    assert recipe.training.schedule.total_steps(1000) == steps


def loss_of(name, method):
    return load(f"two_stage:{name}", [f"method={method}"]).method.loss.build(lvis_categories().counts)


def test_components_switch_parts_of_sigmoid_eql():
    plain = loss_of("components", "none")
    assert isinstance(plain, equigrad.SigmoidEqualizationLoss)
    inner = [loss_of("components", method).loss for method in ("obj", "obj_neg", "obj_pos", "obj_neg_pos")]
    switches = [(loss.reweight_negative, loss.reweight_positive) for loss in [plain, *inner]]
    assert switches == [(False, False), (False, False), (True, False), (False, True), (True, True)]


@pytest.mark.parametrize(
    ("mapping", "weight"), [("sqrt", 0.5), ("linear", 0.25), ("exp", 0.0625), ("sigmoid", 0.00136)]
)
def test_mappings_turn_a_ratio_of_a_quarter_into_their_weight(mapping, weight):
    for method, positive_weight in ((f"{mapping}_neg", 1), (f"{mapping}_neg_pos", 1 + 4 * (1 - weight))):
        loss = loss_of("mappings", method).loss
        loss.statistics.positive.fill_(1.0)
        loss.statistics.negative.fill_(4.0)
        positive, negative = loss.category_weights()
        assert (float(negative[0]), float(positive[0])) == pytest.approx((weight, positive_weight), rel=1e-2)


def test_boxes_are_pooled_and_learnt_as_in_the_released_code():
    for name in ("lvis_mask_rcnn_r50", "openimages_faster_rcnn_r50"):
        detector = load(f"two_stage:{name}").detector
        assert (detector.aligned, detector.box_loss) == (True, "l1")


def test_grad_blocking_spares_the_published_categories_of_lvis():
    assert int((loss_of("lvis_mask_rcnn_r50", "grad_blocking").kept == 0).sum()) == 815


def test_grad_blocking_spares_half_of_openimages_by_the_boxes_as_published():
    # The published ranges of the five groups; 1652 lies in the middle one.
    ranges = [(14, 478), (481, 1069), (1087, 2384), (2388, 7852), (7944, 1_418_594)]
    boxes = np.concatenate([np.linspace(*ends, 100) for ends in ranges]).round().astype(np.int64)
    boxes[200:300] = np.concatenate([np.linspace(1087, 1651, 50), np.linspace(1652, 2384, 50)]).round()
    counts = CategoryCounts(boxes // 2, boxes)
    loss = load("two_stage:openimages_faster_rcnn_r50", ["method=grad_blocking"]).method.loss.build(counts)
    assert int((loss.kept == 0).sum()) == 250


def test_bags_has_the_published_groups_of_lvis():
    assert loss_of("lvis_mask_rcnn_r50", "bags").layout.sizes == (201, 413, 335, 258, 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With the runs `ce` and `sigmoid_eql`, two steps long."""
    folder = tmp_path_factory.mktemp("two_stage")
    for method in ("ce", "sigmoid_eql"):
        assert train(folder, "plain", method, folder / method) == 0
    return folder


def train(folder, recipe, method, run, *settings):
    chosen = [f"method={method}", f"root={folder / 'glyphs'}", *settings]
    assignments = [word for setting in chosen for word in ("--set", setting)]
    return main(["train", f"{SMALL}:{recipe}", "--run", str(run), *assignments])


@pytest.mark.parametrize(
    ("recipe", "method", "first"),
    [
        ("decoupled", "crt", "ce"),
        ("decoupled", "lws", "ce"),
        ("better_representation", "bags", "ce"),
        ("better_representation", "crt_eql", "sigmoid_eql"),
        ("better_representation", "lws_eql", "sigmoid_eql"),
        ("better_representation", "bags_eql", "sigmoid_eql"),
    ],
)
def test_a_second_stage_trains_the_classifier_of_a_finished_run_alone(folder, capsys, recipe, method, first):
    run = folder / method
    assert train(folder, recipe, method, run, f"init={folder / first}") == 0
    before, after = load_weights(folder / first), load_weights(run)
    kept = {name for name in before if not name.startswith((CLASSIFIER, "roi_heads.classification_loss"))}
    assert len(kept) > 50
    assert all(torch.equal(before[name], after[name]) for name in kept)
    if "lws" in method:
        assert torch.equal(before[f"{CLASSIFIER}.weight"], after[f"{CLASSIFIER}.classifier.weight"])
        assert not torch.equal(after[f"{CLASSIFIER}.scale"], torch.ones(8))
    else:
        assert not torch.equal(before[f"{CLASSIFIER}.weight"], after[f"{CLASSIFIER}.weight"])
    first_result = json.loads((run / "evaluation.json").read_text())
    assert main(["evaluate", str(run)]) == 0
    assert json.loads((run / "evaluation.json").read_text()) == first_result
    image = next((folder / "glyphs" / "images").rglob("*.png"))
    assert main(["predict", str(run), str(image), "--output", str(run / "pictures")]) == 0
    assert len(list((run / "pictures").iterdir())) == 1
    assert train(folder, recipe, method, run, f"init={folder / first}", "training.schedule.steps=3") == 1  # not empty
    assert "--resume" in capsys.readouterr().err


def test_a_second_stage_goes_on_where_it_was_stopped(folder, tmp_path):
    settings = ["--set", "method=crt", "--set", f"root={folder / 'glyphs'}", "--set", f"init={folder / 'ce'}"]
    words = ["train", f"{SMALL}:decoupled", *settings, "--run"]
    assert main([*words, str(tmp_path / "whole"), "--set", "training.schedule.steps=3"]) == 0
    assert main([*words, str(tmp_path / "parts"), "--set", "training.schedule.steps=2"]) == 0
    assert main([*words, str(tmp_path / "parts"), "--set", "training.schedule.steps=3", "--resume"]) == 0
    whole, parts = (load_weights(tmp_path / name) for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_a_second_stage_says_what_it_starts_from(folder, capsys):
    with pytest.raises(EngineError, match="--init RUN"):
        build_model(load("two_stage:decoupled", ["method=crt"]), lvis_categories())
    assert train(folder, "decoupled", "lws", folder / "wrong", f"init={folder / 'sigmoid_eql'}") == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "sigmoid_eql does not fit this recipe: the classifier is kept, so both stages need the same loss" in error


def test_two_processes_read_a_run_by_norcal_as_one_process_does(folder, tmp_path):
    words = ["evaluate", str(folder / "ce"), "--set", "method=norcal", *OWN, "--output"]
    assert main([*words, str(tmp_path / "alone")]) == 0
    run_as_torchrun(main, [*words, str(tmp_path / "shared")], output=tmp_path / "output.txt")
    alone, shared = ((tmp_path / name / "evaluation.json").read_text() for name in ("alone", "shared"))
    assert shared == alone


def test_norcal_reads_a_finished_run_without_touching_it(folder, tmp_path, capsys):
    run, output = folder / "ce", tmp_path / "norcal"
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    words = ["evaluate", str(run), "--set", "method=norcal", "--set", "method.scores.power=1.5"]
    assert main([*words, *OWN, "--output", str(output), "--json", str(tmp_path / "r.json")]) == 0
    assert "AP" in capsys.readouterr().out
    assert {file: file.read_bytes() for file in run.rglob("*") if file.is_file()} == before
    result = json.loads((tmp_path / "r.json").read_text())
    assert result == json.loads((output / "evaluation.json").read_text())["result"]
    assert recipe_of_run(output).method.scores == NorCal(power=1.5)
    assert main(["report", str(run), str(output), "--output", str(tmp_path / "report.html")]) == 0
    assert main(["evaluate", str(output)]) == 0  # a run of its own
    pairs = [detections(each) for each in (run, output)]
    assert not np.array_equal(*pairs)


def detections(run):
    """All scores of a run's predictions of the test set."""
    recipe = recipe_of_run(run)
    sets = recipe.data.load(with_masks=recipe.with_masks)
    model = trained_model(recipe, TrainedCategories.of(sets.train.data), run)
    images = torch.stack([sets.test[0][0].as_subclass(torch.Tensor)])
    with torch.no_grad():
        return model(images)[0]["scores"].numpy()


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        (["--set", "method=norcal"], "--set and --output FOLDER go together", 2),
        (["--output", "elsewhere"], "--set and --output FOLDER go together", 2),
        (["--norcal", "0.5"], "--norcal is for detections in a file", 2),
        (["--set", "method=nothing", "--output", "elsewhere"], "method=nothing: expected one of ce, ", 2),
        (["--set", "method=bags", "--output", "elsewhere"], "elsewhere does not fit its recipe: ", 1),
    ],
)
def test_a_wrong_variant_is_refused_in_one_line(folder, tmp_path, monkeypatch, capsys, words, message, code):
    monkeypatch.chdir(tmp_path)
    assert main(["evaluate", str(folder / "ce"), *OWN, *words]) == code
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
    assert not (tmp_path / "elsewhere").exists()


def test_a_variant_does_not_write_over_a_run(folder, capsys):
    words = ["evaluate", str(folder / "ce"), "--set", "method=norcal", "--output", str(folder / "sigmoid_eql")]
    assert main([*words, *OWN]) == 1
    assert "is not empty" in capsys.readouterr().err
    assert (folder / "sigmoid_eql" / "recipe.json").exists()
