"""The example on runs of all tasks, against `equigrad predict`."""

import csv
import json

import numpy as np
import pytest
import run_exported
from PIL import Image

from commands.running_commands import equigrad
from images_on_disk import write_images

FILES = {"onnx": "model.onnx", "torch_export": "model.pt2", "torchscript": "model.torchscript.pt"}
_STEPS = ("training.schedule.epochs=none", "training.schedule.warmup.length=1", "training.num_workers=0")
_SHORT = (*_STEPS, "training.schedule.steps=2", "training.batch_size=4")
_GLYPHS = (*_SHORT, "data.max_count=12", "data.test_count=2")
_OBJECTS = (*_GLYPHS, "data.num_classes=4", "data.image_size=64", "backbone.strides=16,32", "backbone.width=4")
_OWN = ("frozen=none", "data.size=32", "backbone.weights=none")
RUNS = {
    "classifier": ("own_data:classification", [*_OWN, *_SHORT, "data.train=photos/train", "data.test=photos/test"]),
    "multi-label": ("own_data:multi_label", [*_OWN, *_SHORT, "data.train=photos/labels.csv", "data.test=none"]),
    "detector": ("glyph_objects:one_stage", [*_OBJECTS, "preprocessing.test_short=80", "preprocessing.long=100"]),
    "segmenter": ("tiny:segmentation", [*_GLYPHS, "data.num_glyphs=3", "data.image_size=48"]),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Photographs to train on, `photos`, and a phone's to predict, `photo.jpg`, which is stored lying."""
    folder = tmp_path_factory.mktemp("exported")
    write_images(folder / "photos" / "train", {"cat": 8, "dog": 6, "eel": 3}, size=40)
    write_images(folder / "photos" / "test", {"cat": 2, "dog": 1, "eel": 1}, size=40, seed=1)
    rows = [f"train/cat/{number}.png,cat;dog\ntrain/dog/{number}.png,dog\n" for number in range(6)]
    (folder / "photos" / "labels.csv").write_text(f"image,categories\n{''.join(rows)}")
    pixels = np.random.default_rng(0).integers(0, 256, (6, 9, 3), dtype=np.uint8)
    photo = Image.fromarray(pixels).resize((120, 90), Image.Resampling.BICUBIC)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    photo.save(folder / "photo.jpg", exif=exif)
    return folder


@pytest.fixture(scope="module")
def trained(folder):
    """Runs by name, trained when they are asked for."""

    def train(name):
        if not (folder / name).exists():
            recipe, settings = RUNS[name]
            done = equigrad("train", recipe, "--run", name, settings=settings, folder=folder)
            assert done.code == 0, done.err
        return name

    return train


def found_in_file(folder, run, file_format, threshold=None):
    """What the example finds in the photograph with the run's exported file."""
    done = equigrad("export", run, "--format", file_format, "--force", folder=folder)
    assert done.code == 0, done.err
    about, function = run_exported.load(folder / run / FILES[file_format])
    image = run_exported.upright(folder / "photo.jpg")
    assert image.size == (90, 120)
    return list(run_exported.TASKS[about["task"]](about, function, image, threshold))


def predicted(folder, run, kind, *words):
    """What the command finds in it."""
    file = folder / f"{run}.{kind}"
    done = equigrad("predict", run, "photo.jpg", f"--{kind}", file, "--no-pictures", "--force", *words, folder=folder)
    assert done.code == 0, done.err
    return json.loads(file.read_text()) if kind == "json" else list(csv.DictReader(file.open()))


@pytest.mark.parametrize("file_format", ["torchscript", "torch_export"])
def test_objects_are_those_that_the_command_predicts(folder, trained, file_format):
    run = trained("detector")
    expected = predicted(folder, run, "json", "--threshold", "0.001")
    found = found_in_file(folder, run, file_format, 0.001)
    assert len(found) == len(expected) > 20
    # Pillow and torchvision round resized pixels differently, so that objects of nearly the same score change places.
    places = np.array([[*one["box"], 1000 * one["score"]] for one in found])
    wanted = np.array([[x, y, x + w, y + h, 1000 * score] for x, y, w, h, score in map(flat, expected)])
    nearest = np.abs(places[:, None] - wanted).max(2).min(1)
    assert (nearest < 0.5).mean() > 0.95
    assert (places[:, :4].max(0) <= [90, 120, 90, 120]).all()


def flat(entry):
    return (*entry["bbox"], entry["score"])


@pytest.mark.parametrize(("run", "threshold"), [("classifier", None), ("multi-label", 0.001)])
@pytest.mark.parametrize("file_format", ["onnx", "torchscript"])
def test_categories_are_those_that_the_command_predicts(folder, trained, run, threshold, file_format):
    found = found_in_file(folder, trained(run), file_format, threshold)
    words = [] if threshold is None else ["--threshold", threshold]
    expected = predicted(folder, run, "csv", *words)
    assert [one["category"] for one in found] == [row["name"] for row in expected]
    assert len(found) == {"classifier": 3, "multi-label": 2}[run]
    np.testing.assert_allclose([one["score"] for one in found], [float(row["score"]) for row in expected], atol=1e-5)


@pytest.mark.parametrize("settings", [[], ["data.base=96,48"]])
def test_shares_of_pixels_are_those_that_the_command_predicts(folder, trained, settings):
    run = trained("segmenter")
    words = [word for setting in settings for word in ("--set", setting)]
    done = equigrad("export", run, "--format", "torchscript", "--force", *words, folder=folder)
    assert done.code == 0, done.err
    about, function = run_exported.load(folder / run / FILES["torchscript"])
    image = run_exported.upright(folder / "photo.jpg")
    shares = {one["category"]: one["share"] for one in run_exported.segment(about, function, image, None)}
    expected = {row["name"]: float(row["share"]) for row in predicted(folder, run, "csv", *words)}
    assert sum(shares.values()) == pytest.approx(1)
    assert shares == pytest.approx(expected, abs=0.01)


def test_it_prints_what_it_finds(folder, trained, monkeypatch, capsys):
    found = found_in_file(folder, trained("classifier"), "torchscript")
    file = folder / "classifier" / FILES["torchscript"]
    monkeypatch.setattr("sys.argv", ["run_exported.py", str(file), str(folder / "photo.jpg")])
    run_exported.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines == [str(folder / "photo.jpg"), *(f"{one['score']:6.3f}  {one['category']}" for one in found)]


@pytest.mark.parametrize(
    ("model", "photo", "message"),
    [("model.onnx", "photo.jpg", "model.onnx: no such file"), ("photo.jpg", "photo.jpg", "ends in .onnx, .pt2, .pt ")],
)
def test_what_is_no_model_is_refused_in_a_line(folder, monkeypatch, capsys, model, photo, message):
    monkeypatch.setattr("sys.argv", ["run_exported.py", str(folder / model), str(folder / photo)])
    with pytest.raises(SystemExit):
        run_exported.main()
    assert message in capsys.readouterr().err.splitlines()[-1]
