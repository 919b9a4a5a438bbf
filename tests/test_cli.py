"""The command line as a user types it, on small data."""

import contextlib
import io
import json
import shutil
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

from equigrad.cli import main
from images_on_disk import write_images, write_list, zip_folder

SMALL = [
    *("--set", "data.num_classes=5", "--set", "data.max_count=12", "--set", "data.imbalance_factor=6"),
    *("--set", "data.test_count=2", "--set", "training.schedule.epochs=1", "--set", "training.batch_size=8"),
    *("--set", "training.schedule.warmup.length=1", "--set", "training.log_every=1"),
]


class Done(NamedTuple):
    code: int
    out: str
    err: str


def equigrad(*words, folder="."):
    """Run a command in this process, from a folder."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(word) for word in words])
        except SystemExit as usage:
            code = usage.code
    return Done(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a small finished run."""
    folder = tmp_path_factory.mktemp("runs") / "softmax_eql"
    done = equigrad("train", "tiny:softmax_eql", "--run", folder, "--set", "method.loss.prior_power=0.5", *SMALL)
    assert done.code == 0, done.err
    assert "Overall" in done.out
    return folder


@pytest.fixture
def photos(tmp_path):
    """`photos/train` and `photos/test`, one folder a category."""
    write_images(tmp_path / "photos" / "train", {"cat": 12, "dog": 6, "eel": 3}, size=16)
    write_images(tmp_path / "photos" / "test", {"cat": 2, "dog": 1, "eel": 1}, size=16, seed=1)
    return tmp_path / "photos"


def test_recipes_lists_what_can_be_trained_and_the_tables():
    listed = equigrad("recipes")
    assert listed.code == 0
    lines = {line.split()[0]: line for line in listed.out.splitlines() if ":" in line.split(" ")[0]}
    assert "inat (ResNet-50)" in lines["image_classification:inaturalist18_resnet50"]
    assert {"tiny:softmax_eql", "own_data:classification"} <= lines.keys()
    blocks = listed.out.splitlines()
    methods = blocks[next(row for row, line in enumerate(blocks) if "inaturalist18" in line and "(" not in line) - 1]
    assert "dive_softmax_eql" in methods


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


def test_evaluate_writes_metrics_and_categories(run, tmp_path):
    done = equigrad("evaluate", run, "--json", tmp_path / "result.json", "--csv", tmp_path / "categories.csv")
    assert done.code == 0, done.err
    result = json.loads((tmp_path / "result.json").read_text(), parse_constant=pytest.fail)
    assert 0 <= result["Overall"] <= 1
    assert result["Many"] is None  # no category of this small data has so many images
    assert "Many –" in done.out
    assert len((tmp_path / "categories.csv").read_text().splitlines()) == 6
    assert (run / "evaluation.json").exists()


def test_report_writes_one_page(run, tmp_path):
    done = equigrad("report", run, "--output", tmp_path / "page.html")
    assert done.code == 0, done.err
    assert "<html" in (tmp_path / "page.html").read_text()


def test_a_finished_run_is_not_overwritten(run):
    done = equigrad("train", "tiny:softmax_eql", "--run", run, *SMALL)
    assert done.code == 1
    assert "is not empty" in done.err


def test_predict_draws_every_image_it_can_read(run, tmp_path):
    images = tmp_path / "images"
    write_images(images, {"a": 1, "b": 1}, size=16)  # a/0.png and b/0.png
    (images / "bad.jpg").write_bytes(b"not an image")
    done = equigrad("predict", run, images, images / "gone.png", "--output", tmp_path / "drawn")
    assert done.code == 1
    assert sorted(file.name for file in (tmp_path / "drawn").iterdir()) == ["0.png", "0_2.png"]
    assert Image.open(tmp_path / "drawn" / "0.png").width > 400
    lines = done.out.splitlines()
    assert len(lines) == 2
    assert all(line.count("%") == 5 and "few)" in line for line in lines)
    told = done.err.splitlines()
    assert "bad.jpg: cannot read the image" in told[0]
    assert "gone.png: no such image" in told[1]
    assert "2 of 4 images could not be read" in told[2]


def test_predict_never_writes_over_what_it_reads(run, tmp_path):
    images = tmp_path / "images"
    write_images(images, {"a": 1}, size=16)
    before = (images / "a" / "0.png").read_bytes()
    assert equigrad("predict", run, images / "a" / "0.png", "--output", images / "a").code == 0
    assert (images / "a" / "0.png").read_bytes() == before
    assert (images / "a" / "0_2.png").exists()


def test_own_images_are_trained_and_predicted_without_python(photos):
    settings = ["data.size=32", "training.schedule.epochs=1", "training.batch_size=7", "training.num_workers=0"]
    data = ["data.train=train", "data.test=test"]
    words = [word for setting in [*data, *settings] for word in ("--set", setting)]
    done = equigrad("train", "own_data:classification", "--run", "run", *words, folder=photos)
    assert done.code == 0, done.err
    shutil.rmtree(photos / "train")  # predict needs the run alone
    done = equigrad("predict", "run", "test", folder=photos)
    assert done.code == 0, done.err
    assert len(list((photos / "run" / "predictions").glob("*.png"))) == 4
    assert "eel" in done.out


def test_data_counts_shows_groups_and_bars(photos, tmp_path):
    done = equigrad("data", "counts", photos / "train", "--csv", tmp_path / "counts.csv")
    assert done.code == 0, done.err
    assert "21 images, 3 categories, from 12 to 3 images each, imbalance factor 4" in done.out
    assert "few                3          21   100.0%" in done.out
    bars = {line.split()[0]: line.count("█") for line in done.out.splitlines() if "█" in line}
    assert bars == {"cat": 40, "dog": 20, "eel": 10}
    assert (tmp_path / "counts.csv").read_text().splitlines()[1:] == ["0,cat,12,few", "1,dog,6,few", "2,eel,3,few"]


def test_data_check_passes_what_is_right_and_fails_what_is_not(photos):
    done = equigrad("data", "check", photos / "train", "--test", photos / "test")
    assert done.code == 0, done.err
    assert "nothing that would make training wrong" in done.out
    shutil.copy(photos / "train" / "cat" / "0.png", photos / "test" / "cat" / "copy.png")
    (photos / "train" / "dog" / "bad.png").write_bytes(b"no image")
    done = equigrad("data", "check", photos / "train", "--test", photos / "test", "--decode")
    assert done.code == 1
    assert "error: " in done.out
    assert "test images also in training, by content: 1" in done.out
    assert "damaged images: 1" in done.out
    assert "2 kinds of faults" in done.err


def test_data_check_only_notes_an_empty_category(tmp_path):
    paths = write_images(tmp_path, {"a": 2, "b": 1}, size=8)
    file = write_list(tmp_path / "train.txt", {"a": paths["a"], "none": [], "b": paths["b"]})
    done = equigrad("data", "check", file)
    assert done.code == 0, done.err
    assert "note: " in done.out
    assert "categories without images: 1" in done.out
    (tmp_path / paths["b"][0]).unlink()
    done = equigrad("data", "check", file)
    assert done.code == 1
    assert "missing files: 1" in done.out


def test_long_tail_writes_a_list_that_training_reads(photos):
    words = ["data", "long-tail", photos / "train", "--output", photos / "lists" / "lt.txt", "--imbalance-factor", 12]
    done = equigrad(*words)
    assert done.code == 0, done.err
    assert "16 images, 3 categories" in done.out
    assert f"--set data.root={photos / 'train'}" in done.out
    counted = equigrad("data", "counts", photos / "lists" / "lt.txt", "--root", photos / "train")
    assert "from 12 to 1 images each" in counted.out
    assert "eel" in counted.out  # the names went along
    again = equigrad(*words)
    assert again.code == 1
    assert "lt.txt exists; --force replaces it" in again.err
    before = (photos / "lists" / "lt.txt").read_text()
    assert equigrad(*words, "--force").code == 0
    assert (photos / "lists" / "lt.txt").read_text() == before


def test_long_tail_does_not_rename_the_categories_of_another_list(photos):
    (photos / "classes.csv").write_text("label,name\n0,ant\n1,bee\n")
    done = equigrad("data", "long-tail", photos / "train", "--output", photos / "lt.txt")
    assert done.code == 1
    assert "classes.csv has other categories" in done.err
    assert not (photos / "lt.txt").exists()


def test_arrays_and_archives_are_read_and_written(photos):
    arrays = photos / "arrays.npz"
    np.savez(arrays, images=np.zeros((9, 4, 4, 3), dtype=np.uint8), labels=np.repeat([0, 1, 2], 3))
    done = equigrad("data", "long-tail", arrays, "--output", photos / "lt.npz", "--imbalance-factor", 3)
    assert done.code == 0, done.err
    with np.load(photos / "lt.npz", allow_pickle=False) as stored:
        assert np.bincount(stored["labels"]).tolist() == [3, 2, 1]
        assert stored["images"].shape == (6, 4, 4, 3)
    assert equigrad("data", "long-tail", arrays, "--output", photos / "lt.txt", "--imbalance-factor", 3).code == 0
    assert "6 images" in equigrad("data", "counts", photos / "lt.txt", "--root", arrays).out
    zipped = zip_folder(photos / "train", photos / "train.zip")
    assert "21 images" in equigrad("data", "counts", zipped).out


def test_cifar_becomes_arrays(tmp_path):
    (tmp_path / "batches.meta.txt").write_text("plane\ncar\n")
    record = np.zeros((2, 3073), dtype=np.uint8)
    record[1, 0] = 1
    for name in ["test_batch", *(f"data_batch_{number}" for number in range(1, 6))]:
        record.tofile(tmp_path / f"{name}.bin")
    assert "10 images, 2 categories" in equigrad("data", "counts", tmp_path).out
    assert "2 images, 2 categories" in equigrad("data", "counts", tmp_path, "--split", "test").out
    refused = equigrad("data", "long-tail", tmp_path, "--output", tmp_path / "lt.txt")
    assert "expected a name that ends in .npz" in refused.err
    assert equigrad("data", "long-tail", tmp_path, "--output", tmp_path / "lt.npz", "--imbalance-factor", 5).code == 0
    assert "from 5 to 1" in equigrad("data", "counts", tmp_path / "lt.npz").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "tiny:nothing"], "no such function"),
        (["train", "tiny"], "expected module:function"),
        (["train", "tiny:ce", "--set", "training.epoch=3"], "no field 'epoch' in TrainSettings"),
        (["train", "tiny:softmax_eql", "--set", "method.loss.prior_power=much"], "prior_power=much: expected a number"),
        (["train", "own_data:classification"], "train: no such list or folder; name yours with --set data.train="),
        (["evaluate", "nowhere"], "nowhere: no such run"),
        (["evaluate", "."], "not the folder of a run, it has no recipe.json"),
        (["predict", "nowhere", "image.png"], "nowhere: no such run"),
        (["predict", "nowhere", "."], ".: expected images in the folder, found none"),
        (["report", "nowhere"], "nowhere is not the folder of a run"),
        (["recipes", "--check", "tiny:nothing"], "no such function"),
        (["data", "counts", "nowhere"], "nowhere: no such list, folder or file of images"),
        (["data", "check", "nowhere"], "nowhere: no such list"),
        (["data", "long-tail", "nowhere", "--output", "lt.txt"], "nowhere: no such list"),
        (["data", "counts", "."], "found no image in any folder"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(words, message, tmp_path):
    done = equigrad(*words, folder=tmp_path)
    assert done.code == 1
    assert message in done.err
    assert len(done.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ("[]", "no format version"),
        ('{"recipe": "tiny:ce", "set": []}', "no format version; runs of earlier versions must be trained anew"),
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


@pytest.mark.parametrize(
    "words", [[], ["train"], ["fly"], ["train", "tiny:ce", "--speed", "9"], ["data"], ["data", "long-tail", "a"]]
)
def test_wrong_usage_exits_with_2(words):
    assert equigrad(*words).code == 2


def test_the_module_is_a_program(tmp_path):
    line = [sys.executable, "-m", "equigrad", "evaluate", "nowhere"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "equigrad: nowhere: no such run; expected a folder that `equigrad train` made\n"
