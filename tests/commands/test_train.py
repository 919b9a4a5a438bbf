"""`equigrad train`: help, flags, mistakes and the folder of a run."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from torch.testing import assert_close

from commands.running_commands import FEW_GLYPHS, SHORT_RUN, equigrad
from equigrad.cli import main
from equigrad.engine.checkpoint import load_weights
from equigrad.recipes import semantic_segmentation
from equigrad.settings import list_settings
from equigrad.tasks.classification.run import build_model
from equigrad.tasks.run_folder import recipe_of_run
from running import load


def train(*words, settings=()):
    return main(["train", *map(str, words), *(word for setting in settings for word in ("--set", setting))])


def one_line(capsys):
    """What was said on stderr, which must be one line."""
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.fixture
def help_of(capsys, monkeypatch):
    """The settings that the help of a recipe lists, without line breaks: name and value, then the rest."""
    monkeypatch.setenv("COLUMNS", "120")

    def read(recipe, *words):
        assert train(recipe, *words, "--help") == 0
        entries = {}
        for line in capsys.readouterr().out.splitlines():
            if line.startswith("  ") and not line.startswith("   "):
                name, _, rest = line.strip().partition("=")
                value, _, about = rest.partition(" ")
                entries[name] = [value, about.strip()]
            elif line.startswith("   "):
                entries[name][1] = f"{entries[name][1]} {line.strip()}".strip()
        return entries

    return read


def test_the_help_lists_every_setting_with_value_purpose_and_kind(help_of):
    entries = help_of("own_data:detection", "--method", "efl")
    assert {setting.path for setting in list_settings(load("own_data:detection", ["method=efl"]))} <= entries.keys()
    assert (entries["detector"][0], entries["method"][0]) == ("none", "efl")  # as arguments, not as classes
    expected = {
        "method.loss.focus_scale": ("8.0", "s, the largest extra focus; ", "[a number]"),
        "data.images": ("images", "folder or `.zip` file", "[a path]"),
        "data.test_images": ("none", "folder or `.zip` file of the test images, if different", "[none or a path]"),
        "training.optimizer.lr": ("0.001", "base learning rate", "[a number]"),
        "training.channels_last": ("true", "use the channels-last memory layout", "[true or false]"),
    }
    for name, (value, purpose, kind) in expected.items():
        shown, about = entries[name]
        assert shown == value
        assert about.startswith(purpose)
        assert about.endswith(kind)
    assert entries["preprocessing.short"][0] == "176,192,208,224,240,256"
    assert "[SigmoidEql | Efl | Eqfl | Evfl | QualityFocal | FocalEql]" in entries["method.loss"][1]


def test_the_help_names_the_arguments_of_the_recipe_and_the_flags(capsys):
    assert train("own_data:detection", "--help") == 0
    shown = " ".join(capsys.readouterr().out.split())  # however the lines are broken
    assert "[none or one of bce, fl, fl_eql, efl, qfl, eqfl, vfl, evfl, sigmoid, ce, " in shown
    assert "yolox_s has its own, trained from scratch. [none or text]" in shown
    assert "Faster R-CNN with Sigmoid-EQL" in shown
    assert "Args:" not in shown
    assert all(flag in shown for flag in ("--epochs", "--batch-size", "--lr", "--workers", "--precision", "--detector"))
    assert "--segmenter" not in shown


def test_the_help_shows_what_the_words_before_it_change(help_of):
    entries = help_of("own_data:detection", "--method", "qfl", "--lr", "0.3")
    assert entries["method.loss"][0] == "Eqfl"
    assert entries["method.loss.focus_scale"][0] == "0.0"
    assert entries["training.optimizer.lr"][0] == "0.3"


def test_flags_reach_their_settings(tmp_path):
    flags = ["--epochs", 1, "--batch-size", 8, "--lr", 0.05, "--seed", 3]
    machine = ["--workers", 0, "--device", "cpu", "--precision", 32]
    assert train("tiny:ce", "--run", tmp_path / "run", *flags, *machine, settings=FEW_GLYPHS) == 0
    stored = json.loads((tmp_path / "run" / "recipe.json").read_text())
    training = stored["settings"]["training"]
    assert (training["schedule"]["epochs"], training["schedule"]["steps"]) == (1, None)
    assert (training["batch_size"], training["seed"], training["num_workers"]) == (8, 3, 0)
    assert training["optimizer"]["lr"] == 0.05
    assert (stored["settings"]["device"], stored["settings"]["precision"]) == ("cpu", "32")
    assert stored["format"] == 2
    assert (stored["recipe"], stored["seed"]) == ("tiny:ce", 3)
    expected = load("tiny:ce", [*FEW_GLYPHS, "training.schedule.epochs=1", "training.batch_size=8"])
    optimizer = replace(expected.training.optimizer, lr=0.05)
    expected = replace(expected, device="cpu", training=replace(expected.training, optimizer=optimizer, seed=3))
    assert recipe_of_run(tmp_path / "run") == expected


def test_a_training_starts_from_an_earlier_run_by_a_flag(run, tmp_path, capsys):
    weights = load_weights(run)
    flags = ["--init", run, "--lr", 1e-9]
    assert train("tiny:ce", "--run", tmp_path / "run", *flags, settings=SHORT_RUN) == 0
    assert f"{run}: " in capsys.readouterr().out
    assert json.loads((tmp_path / "run" / "recipe.json").read_text())["settings"]["init"] == str(run)
    started = load_weights(tmp_path / "run")["backbone.stages.0.0.weight"]
    assert_close(started, weights["backbone.stages.0.0.weight"], rtol=0, atol=1e-5)


def test_choices_are_arguments_of_the_recipe_and_are_remembered(help_of):
    chosen = ["--detector", "faster_rcnn", "--backbone", "resnet50", "--method", "ce", "--image-size", "96"]
    entries = help_of("own_data:detection", *chosen, "--frozen", "backbone")
    assert (entries["detector"][0], entries["backbone"][0], entries["method"][0]) == ("faster_rcnn", "resnet50", "ce")
    assert (entries["preprocessing.test_short"][0], entries["training.frozen"][0]) == ("96", "backbone.body")


def test_epochs_replace_a_length_in_steps(help_of):
    name = "semantic_segmentation:ade20k_pspnet_r50"
    assert semantic_segmentation.ade20k_pspnet_r50().training.schedule.steps == 80_000
    entries = help_of(name, "--epochs", "7")
    assert (entries["training.schedule.epochs"][0], entries["training.schedule.steps"][0]) == ("7.0", "none")


def test_epochs_are_an_argument_where_the_recipe_has_it(help_of):
    entries = help_of("yolox:lvis_small", "--epochs", "40")
    assert entries["epochs"][0] == "40"
    assert entries["preprocessing.num_strong_epochs"][0] == "25"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tiny:ce", "--method", "ce"], "--method ce: tiny:ce has no choice of it"),
        (["own_data:instance_segmentation", "--detector", "atss"], "there is one in own_data:detection"),
        (["own_data:detection", "--detector", "yolox"], "expected none or one of atss, faster_rcnn, mask_rcnn"),
        (
            ["own_data:detection", "--backbone", "resnet", "--set", "data.test=none"],
            "one of lite0, resnet50, resnet101, timm:NAME",
        ),
        (["tiny:ce", "--set", "lr=0.1"], "did you mean training.optimizer.lr?"),
        (["tiny:sigmoid_eql", "--set", "method.loss.positive_boots=2"], "did you mean method.loss.positive_boost"),
        (["own_data:detection", "--set", "metod=efl"], "did you mean method"),
        (["own_data:detection", "--method", "elf"], "expected none or one of bce, fl, fl_eql, efl"),
        (["tinny:softmax_eql"], "did you mean tiny:softmax_eql"),
        (["tiny:softmax_eq"], "tiny:softmax_eql"),
        (["tiny:ce", "--set", "training.schedule.epochs=many"], "epochs=many: expected none or a number"),
        (["tiny:ce", "--set", "device=tpu"], "device=tpu: expected one of auto, cpu, cuda, mps"),
        (["tiny:ce", "--batch-size", "0"], "batch_size must be above 0, got 0"),
    ],
)
def test_a_mistake_gets_one_line_with_the_nearest_right_word(words, message, tmp_path, capsys):
    assert train(*words, "--run", tmp_path / "run") == 2
    line = one_line(capsys)
    assert line.startswith("equigrad: ")
    assert message in line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("--epochs", "many", "argument --epochs: invalid float value: 'many'"),
        ("--batch-size", "8.5", "argument --batch-size: invalid int value: '8.5'"),
        ("--device", "tpu", "argument --device: invalid choice: 'tpu'"),
    ],
)
def test_a_flag_with_a_value_of_another_kind_is_wrong_usage(flag, value, message, tmp_path):
    done = equigrad("train", "tiny:ce", flag, value, folder=tmp_path)
    assert done.code == 2
    assert message in done.err
    assert not list(tmp_path.iterdir())


def test_hyper_parameters_of_the_loss_reach_the_loss():
    recipe = load("tiny:sigmoid_eql", ["method.loss.midpoint=0.5", "method.loss.positive_boost=2"])
    loss = build_model(recipe, np.array([9, 3])).classification_loss
    loss.statistics.positive.fill_(1.0)
    loss.statistics.negative.fill_(2.0)  # a ratio at the midpoint: half the weight
    positive, negative = loss.category_weights()
    assert (positive.tolist(), negative.tolist()) == (pytest.approx([2.0] * 2), pytest.approx([0.5] * 2))


def test_a_run_folder_tells_what_it_is(run):
    recipe = json.loads((run / "recipe.json").read_text())
    assert recipe["recipe"] == "tiny:softmax_eql"
    assert "method.loss.prior_power=0.5" in recipe["set"]
    assert recipe["command"][:3] == ["equigrad", "train", "tiny:softmax_eql"]
    assert (run / "statistics.npz").exists()
    assert "<html" in (run / "report.html").read_text()


def test_a_run_keeps_its_predictions_of_the_test_set(run):
    with np.load(run / "predictions" / "test.npz", allow_pickle=False) as stored:
        arrays = dict(stored)
    assert arrays["paths"].tolist() == [str(index) for index in range(10)]
    assert arrays["top"].shape == arrays["scores"].shape == (10, 5)
    assert (np.diff(arrays["scores"], axis=1) <= 0).all()
    result = json.loads((run / "evaluation.json").read_text())["result"]
    assert (arrays["top"][:, 0] == arrays["labels"]).mean() == pytest.approx(result["Overall"])
    assert len(arrays["class_names"]) == 5


def test_a_finished_run_is_not_overwritten(run):
    done = equigrad("train", "tiny:softmax_eql", "--run", run, settings=SHORT_RUN)
    assert done.code == 1
    assert "is not empty" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tiny:sigmoid_eql"], "is a run of tiny:softmax_eql, which cannot continue as tiny:sigmoid_eql"),
        (["tiny:softmax_eql", "--set", "method.loss.prior_power=2"], "trained with method.loss.prior_power=0.5, which"),
        (["tiny:softmax_eql", "--batch-size", "4"], "trained with training.batch_size=8, which cannot change to 4"),
        (["tiny:softmax_eql", "--seed", "1"], "trained with training.seed=0, which cannot change to 1"),
        (["tiny:softmax_eql", "--lr", "0.5"], "trained with training.optimizer.lr=0.1, which cannot change to 0.5"),
        (["tiny:softmax_eql", "--precision", "bf16"], "trained with precision=32, which cannot change to bf16"),
    ],
)
def test_a_run_does_not_go_on_as_another_recipe(words, message, run):
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    done = equigrad("train", *words, "--run", run, "--resume")
    assert done.code == 1
    assert done.err.startswith(f"equigrad: {run} ")
    assert message in done.err
    assert done.err.count("\n") == 1
    assert {file: file.read_bytes() for file in run.rglob("*") if file.is_file()} == before


def test_a_run_goes_on_with_other_workers_device_and_log(run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "run")
    harmless = ["training.log_every=7", "training.checkpoint_every=5", "training.keep_checkpoints=1"]
    done = equigrad(
        *("train", "tiny:softmax_eql", "--run", folder, "--resume", "--workers", "1", "--device", "cpu"),
        settings=harmless,
    )
    assert done.code == 0, done.err
    stored = json.loads((folder / "recipe.json").read_text())["settings"]
    assert (stored["training"]["log_every"], stored["training"]["num_workers"], stored["device"]) == (7, 1, "cpu")
