"""`equigrad predict` on small runs of a detector and a classifier."""

import shutil

import numpy as np
import pytest
from PIL import Image, ImageColor

from commands.running_commands import equigrad
from equigrad.analysis.pictures.predictions import GROUP_COLOURS
from equigrad.cli import main
from images_on_disk import write_images

DETECTOR = [
    *("data.num_classes=4", "data.max_count=12", "data.test_count=2", "data.image_size=64"),
    *("preprocessing.test_short=64", "preprocessing.short=64", "training.num_workers=0"),
    *("training.schedule.epochs=1", "training.batch_size=8", "training.schedule.warmup.length=1"),
]


@pytest.fixture(scope="module")
def runs(run, tmp_path_factory):
    """A folder with the runs `detector` and `classifier`, and an image."""
    folder = tmp_path_factory.mktemp("runs")
    shutil.copytree(run, folder / "classifier")
    settings = [*DETECTOR, f"data.root={folder / 'glyphs'}"]
    done = equigrad("train", "glyph_objects:one_stage", "--run", folder / "detector", settings=settings)
    assert done.code == 0, done.err
    pixels = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "street.jpg")
    return folder


@pytest.fixture
def predict(runs, capsys, monkeypatch):
    """Runs the command beside the runs; gives exit code, output and errors."""
    monkeypatch.chdir(runs)
    capsys.readouterr()

    def command(*words):
        code = main(["predict", *words])
        return code, *capsys.readouterr()

    return command


def test_objects_of_a_detector_are_drawn_and_told(predict, tmp_path):
    code, out, err = predict("detector", "street.jpg", "--threshold", "0", "--limit", "7", "--output", str(tmp_path))
    assert (code, err) == (0, "")
    assert "objects, the best 7 drawn: " in out
    assert out.endswith(f" more -> {tmp_path}/street.png\n")
    (group,) = {group for group in GROUP_COLOURS if f"({group})" in out.split(",")[1]}
    picture = np.array(Image.open(tmp_path / "street.png"))
    assert picture.shape[1] == 24 * 64
    assert (picture == ImageColor.getrgb(GROUP_COLOURS[group])).all(-1).any()


def test_a_threshold_that_nothing_reaches_is_told(predict, runs):
    code, out, _ = predict("detector", "street.jpg", "--threshold", "1")
    assert code == 0
    assert "street.jpg: no object with a score of 1 or more; the best is " in out
    assert (runs / "detector" / "predictions" / "street.png").exists()


def test_runs_of_any_task_and_categories_are_drawn_side_by_side(predict, runs, tmp_path):
    widths = {}
    for run in ("detector", "classifier"):
        assert predict(run, "street.jpg", "--output", str(tmp_path / run))[0] == 0
        widths[run] = Image.open(tmp_path / run / "street.png").width
    code, out, _ = predict("detector", "street.jpg", "--beside", "classifier")
    assert code == 0
    assert out.startswith("street.jpg: detector: ")
    assert " | classifier: " in out
    picture = Image.open(runs / "detector" / "comparisons" / "street.png")
    assert 0 <= picture.width - sum(widths.values()) < 40


def test_runs_of_the_same_name_are_told_apart_by_their_paths(predict, tmp_path):
    code, out, _ = predict(
        "classifier", "street.jpg", "--beside", "./detector/../classifier", "--output", str(tmp_path)
    )
    assert code == 0
    assert "street.jpg: classifier: " in out
    assert " | detector/../classifier: " in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["detector", "street.jpg", "--beside", "gone"], "gone: no such run"),
        (["detector", "street.jpg", "--threshold", "2"], "shown.threshold=2: threshold must be in [0, 1], got 2"),
        (["detector", "street.jpg", "--threshold", "high"], "shown.threshold=high: expected a number"),
        (["detector", "street.jpg", "--limit", "0"], "shown.limit=0: limit must be at least 1, got 0"),
        (["classifier", "street.jpg", "--threshold", "0.5"], "--threshold and --limit are for runs of detectors"),
        (["detector", "gone.jpg"], "gone.jpg: no such image"),
    ],
)
def test_what_is_wrong_is_said(words, message, predict):
    code, out, err = predict(*words)
    assert (code, out) == (1, "")
    assert message in err.splitlines()[0]
    assert "Traceback" not in err


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
    done = equigrad("train", "own_data:classification", "--run", "run", settings=[*data, *settings], folder=photos)
    assert done.code == 0, done.err
    shutil.rmtree(photos / "train")  # predict needs the run alone
    done = equigrad("predict", "run", "test", folder=photos)
    assert done.code == 0, done.err
    assert len(list((photos / "run" / "predictions").glob("*.png"))) == 4
    assert "eel" in done.out
