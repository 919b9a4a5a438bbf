"""Recipes by name, as JSON, and how those of a run may change."""

import contextlib
import json
import shutil
import sys

import pytest
import torch
from PIL import Image

from equigrad.cli import main
from equigrad.engine import EngineError
from equigrad.recipes.catalogue import all_recipes, changed_recipe, load_recipe, resumed_recipe, rows_of_recipe
from equigrad.settings import from_json, to_json
from equigrad.tasks.detection.data import OpenImages
from equigrad.tasks.run_folder import Recipe, recipe_of_run
from equigrad.tasks.scores import NorCal
from running import load

ROWS = [(name, settings) for name, _ in all_recipes() for settings in rows_of_recipe(name)]
SMALL_SCENES = [
    *("data.num_glyphs=4", "data.max_count=8", "data.imbalance_factor=4", "data.test_count=1"),
    *("training.schedule.epochs=1", "training.batch_size=4", "training.schedule.warmup.length=1"),
]
SMALL_OBJECTS = [
    *("data.num_classes=4", "data.max_count=6", "data.test_count=1", "data.image_size=64"),
    *("preprocessing.test_short=64", "preprocessing.short=64", "training.num_workers=0", "training.batch_size=4"),
    *(
        "training.schedule.epochs=0.5",
        "detector.num_features=16",
        "detector.num_proposals=20",
        "detector.rois.num_rois=16",
    ),
]


@pytest.mark.parametrize("module", ["one_stage", "two_stage", "yolox"])
def test_detectors_of_the_paper_are_checked_on_2000_images_except_on_openimages(module):
    recipes = {name: function() for name, function in all_recipes() if name.startswith(f"{module}:")}
    expected = {name: None if isinstance(each.data, OpenImages) else 2000 for name, each in recipes.items()}
    assert {name: each.check_images for name, each in recipes.items()} == expected
    assert recipes


def test_batch_norms_are_synchronised_in_the_segmenters_of_the_paper_and_averaged_in_yolox():
    training = {name: function().training for name, function in all_recipes()}
    synchronised = {name.partition(":")[0] for name, each in training.items() if each.sync_batch_norm}
    averaged = {name.partition(":")[0] for name, each in training.items() if each.average_batch_norm}
    assert (synchronised, averaged) == ({"semantic_segmentation"}, {"yolox"})
    assert all(each.sync_batch_norm for name, each in training.items() if name.startswith("semantic_segmentation:"))
    assert all(each.average_batch_norm for name, each in training.items() if name.startswith("yolox:"))


def test_settings_of_speed_that_change_numbers_are_off_in_the_recipes_of_the_paper():
    modules = ("one_stage", "two_stage", "yolox", "semantic_segmentation", "image_classification")
    for name, function in all_recipes():
        if name.startswith(tuple(f"{module}:" for module in modules)):
            recipe = function()
            training = recipe.training
            assert recipe.precision == "32", name
            assert not any((training.compile, training.channels_last, training.optimizer.fused)), name
            assert getattr(recipe.data, "decode_size", None) is None, name


def run_of(name, folder, *settings):
    words = [word for setting in settings for word in ("--set", setting)]
    assert main(["train", name, "--run", str(folder), *words]) == 0
    return folder


@pytest.fixture(scope="module")
def segmentation(tmp_path_factory):
    """A finished run of `tiny:segmentation` with softmax_eql."""
    return run_of("tiny:segmentation", tmp_path_factory.mktemp("runs") / "segmentation", *SMALL_SCENES)


@pytest.fixture(scope="module")
def two_stage(tmp_path_factory):
    """A finished run of `glyph_objects:mask_rcnn` with ce."""
    folder = tmp_path_factory.mktemp("runs")
    settings = ["method=ce", f"data.root={folder / 'glyphs'}", *SMALL_OBJECTS]
    return run_of("glyph_objects:mask_rcnn", folder / "ce", *settings)


def test_there_are_recipes_of_every_kind():
    assert len(ROWS) > 150
    assert len({type(load(name, settings)) for name, settings in ROWS}) == 3


@pytest.mark.parametrize(("name", "settings"), ROWS, ids=lambda part: part if isinstance(part, str) else " ".join(part))
def test_a_recipe_comes_back_from_json_as_it_was(name, settings):
    recipe = load(name, settings)
    assert from_json(Recipe, json.loads(json.dumps(to_json(recipe), allow_nan=False))) == recipe


def test_a_named_recipe_says_how_it_was_asked_for():
    assignments = ["method=ce", "training.seed=7"]
    named = load_recipe("tiny:segmentation", assignments)
    assert (named.name, named.arguments, named.recipe.training.seed) == ("tiny:segmentation", {"method": "ce"}, 7)
    source = named.source()
    assert (source["recipe"], source["set"], source["arguments"]) == (
        "tiny:segmentation",
        assignments,
        {"method": "ce"},
    )
    assert from_json(Recipe, source["settings"]) == named.recipe


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tiny:ce"], "is a run of tiny:segmentation, which cannot continue as tiny:ce"),
        (["tiny:segmentation", "--method", "ce"], "was trained with method=softmax_eql, not with ce"),
        (
            ["tiny:segmentation", "--batch-size", "2"],
            "was trained with training.batch_size=4, which cannot change to 2",
        ),
        (["tiny:segmentation", "--lr", "0.3"], "training.optimizer.lr=0.1, which cannot change to 0.3"),
        (["tiny:segmentation", "--set", "method.loss.prior_power=2"], "method.loss.prior_power=1.0, which cannot"),
        (["tiny:segmentation", "--set", "data.num_glyphs=5"], "data.num_glyphs=4, which cannot change to 5"),
    ],
)
def test_another_training_is_refused_when_a_run_goes_on(segmentation, capsys, words, message):
    before = {file: file.read_bytes() for file in segmentation.rglob("*") if file.is_file()}
    assert main(["train", *words, "--run", str(segmentation), "--resume"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"equigrad: {segmentation}")
    assert message in line
    assert {file: file.read_bytes() for file in segmentation.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize(
    "setting",
    [
        "training.num_workers=2",
        "training.log_every=3",
        "training.schedule.epochs=2",
        "training.checkpoint_every=5",
        "device=cpu",
        "method=softmax_eql",
    ],
)
def test_what_does_not_change_the_training_may_differ_when_a_run_goes_on(segmentation, setting):
    resumed = resumed_recipe(segmentation, "tiny:segmentation", [setting])
    assert resumed.recipe == load("tiny:segmentation", [*SMALL_SCENES, setting])
    assert resumed.assignments == [*SMALL_SCENES, setting]


def test_a_run_goes_on_with_its_own_settings_and_a_longer_schedule(tmp_path):
    folder = run_of("tiny:segmentation", tmp_path / "run", "method=ce", *SMALL_SCENES)
    words = ["train", "tiny:segmentation", "--run", str(folder), "--resume", "--epochs", "2"]
    assert main(words) == 0
    recipe = recipe_of_run(folder)
    assert (recipe.training.schedule.epochs, recipe.training.batch_size, recipe.data.num_glyphs) == (2, 4, 4)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["epoch"] == 2
    assert len(json.loads((folder / "recipe.json").read_text())["starts"]) == 2


def test_the_data_of_a_run_may_have_moved(two_stage, tmp_path):
    resumed = resumed_recipe(two_stage, "glyph_objects:mask_rcnn", [f"data.root={tmp_path}"])
    assert resumed.recipe.data.root == tmp_path
    with pytest.raises(EngineError, match=r"data\.image_size=64, which cannot change to 32"):
        resumed_recipe(two_stage, "glyph_objects:mask_rcnn", ["data.image_size=32"])


def test_a_changed_recipe_takes_over_only_what_an_argument_changes(two_stage):
    stored, changed = recipe_of_run(two_stage), changed_recipe(two_stage, ["method=norcal", "method.scores.power=0.4"])
    assert changed.method.scores == NorCal(power=0.4)
    assert changed.method.loss == stored.method.loss
    assert (changed.data, changed.detector, changed.training) == (stored.data, stored.detector, stored.training)


def test_norcal_is_another_reading_of_a_run_with_ce(two_stage, tmp_path):
    words = ["evaluate", str(two_stage), "--set", "method=norcal", "--output", str(tmp_path / "norcal")]
    assert main(words) == 0
    assert recipe_of_run(tmp_path / "norcal").method.scores == NorCal()


def test_a_run_folder_that_names_a_module_never_has_it_imported(segmentation, tmp_path, monkeypatch):
    (tmp_path / "planted.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = tmp_path / "run"
    folder.mkdir()
    content = json.loads((segmentation / "recipe.json").read_text())
    (folder / "recipe.json").write_text(json.dumps({**content, "recipe": "planted:recipe"}))
    assert changed_recipe(folder, ["training.seed=4"]).training.seed == 4


def received(run, folder, **fields):
    """A copy of a run with other content in its recipe.json."""
    shutil.copytree(run, folder)
    content = json.loads((run / "recipe.json").read_text())
    (folder / "recipe.json").write_text(json.dumps({**content, **fields}))
    return folder


@pytest.mark.parametrize(
    "fields",
    [
        {"recipe": "torch.hub:download_url_to_file", "set": ["url=data:,x", "dst=hacked"]},
        {"recipe": "torch.hub:download_url_to_file", "arguments": {"url": "data:,x", "dst": "hacked"}},
        {"recipe": "planted:recipe", "set": ["method=ce"]},
        {"recipe": "tiny:planted", "arguments": {"method": "ce"}},
        {"recipe": "tiny:replace", "arguments": {"obj": 1}},
        {"recipe": "tiny.__loader__:get_data", "arguments": {"path": "hacked"}},
        {"recipe": ["planted", "recipe"]},
        {"set": [["method=ce"]]},
        {"arguments": {"method": {"type": "planted"}}},
    ],
    ids=lambda fields: str(next(iter(fields.values())))[:40],
)
def test_nothing_that_a_received_run_names_is_imported_or_called(segmentation, tmp_path, monkeypatch, capsys, fields):
    folder = received(segmentation, tmp_path / "received", **fields)
    (tmp_path / "planted.py").write_text("open('hacked', 'w')")
    Image.new("RGB", (8, 8)).save(tmp_path / "image.png")
    monkeypatch.chdir(tmp_path)
    for more in ([], ["--set", "method=ce"]):
        status = main(["predict", str(folder), "image.png", "--force", *more])
        assert capsys.readouterr().err.count("equigrad: ") == bool(status)
    with contextlib.suppress(EngineError):
        resumed_recipe(folder, "tiny:segmentation", ["method=softmax_eql"])
    assert not (tmp_path / "hacked").exists()
    assert "planted" not in sys.modules


@pytest.mark.parametrize("name", ["torch.hub:download_url_to_file", "os:system", "subprocess:Popen", "tiny:replace"])
@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_what_returns_no_recipe_is_not_called_even_if_the_user_names_it(segmentation, tmp_path, capsys, name, command):
    victim = tmp_path / "hacked"
    folder = received(segmentation, tmp_path / "run", set=["url=data:,x", f"dst={victim}"])
    line = {"train": ["train", name], "evaluate": ["evaluate", str(folder), "--recipe", name]}[command]
    assert main(line) == 2
    assert f"recipe '{name}': no such recipe" in capsys.readouterr().err
    assert not victim.exists()


@pytest.mark.parametrize("postponed", [False, True])
def test_a_recipe_of_the_current_folder_is_used_when_the_user_names_it(tmp_path, monkeypatch, postponed):
    name = f"own_recipes_{postponed}".lower()
    (tmp_path / f"{name}.py").write_text(
        "from __future__ import annotations\n" * postponed + "from equigrad.recipes import tiny\n"
        "from equigrad.tasks.classification.recipe import ClassificationRecipe\n\n"
        "def mine() -> ClassificationRecipe:\n    return tiny.ce()\n\ndef helper() -> int:\n    raise SystemExit\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    assert load(f"{name}:mine") == load("tiny:ce")
    assert sys.path[-1] == str(tmp_path)  # behind every installed package
    with pytest.raises(ValueError, match=f"no such recipe; did you mean {name}:mine|{name} has {name}:mine"):
        load(f"{name}:helper")


@pytest.mark.parametrize(
    ("file", "text", "message", "code"),
    [
        ("mine_broken.py", "def recipe(:\n", "mine_broken.py, line 1: invalid syntax", 1),
        ("mine_needs.py", "import nowhere_to_be_found\n", "No module named 'nowhere_to_be_found'", 1),
        (
            "colorsys.py",
            "def recipe(): ...\n",
            "colorsys is another module, which is found first: rename colorsys.py",
            2,
        ),
        ("mine_other.py", "def recipe() -> int: ...\n", "no such recipe; mine_other has no recipes", 2),
    ],
)
def test_what_is_wrong_with_a_module_of_the_current_folder_is_said_in_one_line(
    tmp_path, monkeypatch, capsys, file, text, message, code
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / file).write_text(text)
    assert main(["train", f"{file.removesuffix('.py')}:recipe"]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


@pytest.mark.parametrize(
    "link", ["predictions", "checkpoints", "metrics.jsonl", "predictions/label_maps", "tensorboard"]
)
def test_a_run_whose_links_lead_elsewhere_is_refused_and_nothing_there_changes(segmentation, tmp_path, capsys, link):
    folder = received(segmentation, tmp_path / "run")
    victim = tmp_path / "victim"
    (victim / "label_maps").mkdir(parents=True)
    (victim / "predictions-0000-00000.npz").touch()
    before = sorted(victim.rglob("*"))
    path = folder / link
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(victim / "new" if path.suffix else victim)
    image = tmp_path / "image.png"
    Image.new("RGB", (8, 8)).save(image)
    for line in (["evaluate"], ["predict"], ["train", "tiny:segmentation", "--run"]):
        tail = {"predict": [str(image)], "train": ["--resume"]}.get(line[0], [])
        assert main([*line, str(folder), *tail]) == 1
        assert f"{path}: a symbolic link that leaves {folder}" in capsys.readouterr().err
    assert sorted(victim.rglob("*")) == before


def test_a_received_run_draws_no_data_where_its_recipe_says(two_stage, tmp_path, capsys):
    content = json.loads((two_stage / "recipe.json").read_text())
    content["settings"]["data"]["root"] = str(tmp_path / "elsewhere")
    folder = received(two_stage, tmp_path / "run", settings=content["settings"])
    assert main(["evaluate", str(folder)]) == 1
    assert "elsewhere: the scenes of the run are not there" in capsys.readouterr().err
    assert not (tmp_path / "elsewhere").exists()


class Planted:
    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return open, (str(self.file), "w")


def test_a_pickled_object_in_a_checkpoint_is_not_built(segmentation, tmp_path, capsys):
    folder = received(segmentation, tmp_path / "run")
    (checkpoint,) = (folder / "checkpoints").iterdir()
    torch.save({"model": Planted(tmp_path / "hacked"), "ema": None}, checkpoint)
    assert main(["evaluate", str(folder)]) == 1
    shown = capsys.readouterr()
    assert "cannot load the checkpoint" in shown.out + shown.err
    assert not (tmp_path / "hacked").exists()
