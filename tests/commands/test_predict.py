"""`equigrad predict` on small runs of a detector and a classifier."""

import csv
import json
import re
import shutil
import zipfile
from fractions import Fraction

import numpy as np
import pytest
from PIL import Image, ImageColor

from commands.running_commands import equigrad
from equigrad.analysis.pictures.predictions import GROUP_COLOURS
from equigrad.cli import main
from equigrad.data.video import open_video, video_writer
from images_on_disk import write_images, zip_folder

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
    assert code == 0
    assert "objects, the best 7 drawn: " in out
    assert out.endswith(f" more -> {tmp_path}/street.png\n")
    assert re.fullmatch(r"1 image in .* s: .* images/s, the model alone .* images/s\n", err)
    (group,) = {group for group in GROUP_COLOURS if f"({group})" in out.split(",")[1]}
    picture = np.array(Image.open(tmp_path / "street.png"))
    assert picture.shape[1] == 24 * 64
    assert (picture == ImageColor.getrgb(GROUP_COLOURS[group])).all(-1).any()


def test_a_threshold_that_nothing_reaches_is_told(predict, runs):
    code, out, _ = predict("detector", "street.jpg", "--threshold", "1")
    assert code == 0
    assert "street.jpg: no object with a score of 1 or more; the best is " in out
    assert (runs / "detector" / "predictions" / "street.png").exists()


def test_an_earlier_picture_is_replaced_only_on_request(predict, tmp_path):
    words = ["classifier", "street.jpg", "--output", str(tmp_path)]
    assert predict(*words)[0] == 0
    (tmp_path / "street.png").write_bytes(b"earlier")
    code, out, err = predict(*words)
    assert (code, out) == (1, "")
    assert f"{tmp_path}/street.png: exists already; --force replaces, --output writes elsewhere" in err
    assert (tmp_path / "street.png").read_bytes() == b"earlier"
    assert predict(*words, "--force")[0] == 0
    assert Image.open(tmp_path / "street.png").width > 400


def test_the_objects_are_written_in_the_standard_format_and_as_a_table(predict, tmp_path):
    files = ["--json", str(tmp_path / "out" / "found.json"), "--csv", str(tmp_path / "found.csv")]
    code, out, _ = predict("detector", "street.jpg", "--threshold", "0", "--no-pictures", *files)
    assert (code, "->" in out, "drawn" in out) == (0, False, False)
    entries = json.loads((tmp_path / "out" / "found.json").read_text())
    rows = list(csv.DictReader((tmp_path / "found.csv").open()))
    assert len(entries) == len(rows) > 10
    assert {entry["image_id"] for entry in entries} == {row["image"] for row in rows} == {"street.jpg"}
    assert {entry["category_id"] for entry in entries} <= {1, 2, 3, 4}
    left, top, width, height = entries[0]["bbox"]
    corners = [float(rows[0][corner]) for corner in ("x1", "y1", "x2", "y2")]
    assert corners == pytest.approx([left, top, left + width, top + height])


def test_no_object_at_all_is_an_empty_list_and_a_table_without_rows(predict, tmp_path):
    files = ["--json", str(tmp_path / "found.json"), "--csv", str(tmp_path / "found.csv")]
    assert predict("detector", "street.jpg", "--threshold", "1", "--no-pictures", *files)[0] == 0
    assert json.loads((tmp_path / "found.json").read_text()) == []
    assert (tmp_path / "found.csv").read_text() == "image,name,label,score,group,x1,y1,x2,y2\n"


def test_a_run_of_any_task_writes_a_table(predict, tmp_path):
    assert predict("classifier", "street.jpg", "--no-pictures", "--csv", str(tmp_path / "found.csv"))[0] == 0
    rows = list(csv.DictReader((tmp_path / "found.csv").open()))
    assert [row["image"] for row in rows] == ["street.jpg"] * 5
    assert sum(float(row["score"]) for row in rows) == pytest.approx(1, abs=1e-4)


def test_a_video_is_predicted_frame_by_frame_and_drawn_as_a_video(predict, runs, tmp_path):
    pytest.importorskip("av")
    with video_writer(tmp_path / "clip.mp4", Fraction(5)) as writer:
        for _ in range(4):
            writer.add(Image.open(runs / "street.jpg"))
    words = [
        "--frames",
        "3",
        "--batch-size",
        "2",
        "--csv",
        str(tmp_path / "found.csv"),
        "--output",
        str(tmp_path / "o"),
    ]
    code, out, err = predict("detector", str(tmp_path / "clip.mp4"), "--threshold", "0", *words)
    assert code == 0, err
    assert out == f"{tmp_path}/clip.mp4: 3 frames -> {tmp_path}/o/clip.mp4\n"
    assert "3 images in " in err
    with open_video(tmp_path / "o" / "clip.mp4") as video:
        assert (video.num_frames, video.rate) == (3, 5)
        assert next(video.frames()).width == 24 * 64
    names = [row["image"] for row in csv.DictReader((tmp_path / "found.csv").open())]
    assert list(dict.fromkeys(names)) == ["clip.mp4#0", "clip.mp4#1", "clip.mp4#2"]


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
        (["detector", "street.jpg", "--threshold", "2"], "threshold must be in [0, 1], got 2"),
        (["detector", "street.jpg", "--limit", "0"], "--limit must be at least 1, got 0"),
        (["classifier", "street.jpg", "--limit", "5"], "--limit is for runs of detectors"),
        (
            ["classifier", "street.jpg", "--json", "found.json"],
            "--json is for runs of detectors, which this is not; --csv",
        ),
        (["detector", "street.jpg", "--annotations", "a.json"], "--annotations gives the image ids for --json FILE"),
        (["detector", "street.jpg", "--json", "x.json", "--annotations", "gone.json"], "gone.json"),
        (["detector", "street.jpg", "--batch-size", "0"], "--batch-size must be at least 1, got 0"),
        (["detector", "street.jpg", "--output", "new", "--device", "moon"], "device 'moon'"),
        (["detector", "gone.jpg"], "gone.jpg: no such image, folder or video"),
        (["detector", "gone.mp4", "gone.jpg"], "gone.mp4, gone.jpg: no such image, folder or video"),
        (["detector", "--camera", "/dev/no_camera"], "camera /dev/no_camera: cannot read the video"),
    ],
)
def test_what_is_wrong_is_said(words, message, predict, runs):
    before = sorted(runs.rglob("*"))
    code, out, err = predict(*words)
    assert (code, out) == (1, "")
    assert message in err.splitlines()[0]
    assert "Traceback" not in err
    assert [file for file in sorted(runs.rglob("*")) if file not in before and not file.is_dir()] == []


def test_an_image_that_the_annotations_do_not_have_is_named(predict, runs, tmp_path):
    annotations = runs / "glyphs" / "annotations" / "lvis_val.json"
    words = ["--json", str(tmp_path / "found.json"), "--annotations", str(annotations)]
    code, out, err = predict("detector", "street.jpg", *words)
    assert (code, out) == (1, "")
    assert f"{annotations}: images: none has the file_name street.jpg" in err
    assert not (tmp_path / "found.json").exists()


def test_predict_draws_every_image_it_can_read_and_keeps_the_folders(run, tmp_path):
    images = tmp_path / "images"
    write_images(images, {"a": 1, "b": 1}, size=16)  # a/0.png and b/0.png
    (images / "bad.jpg").write_bytes(b"not an image")
    done = equigrad("predict", run, images, images / "gone.png", "--output", tmp_path / "drawn")
    assert done.code == 1
    drawn = [file.relative_to(tmp_path / "drawn").as_posix() for file in (tmp_path / "drawn").rglob("*.*")]
    assert sorted(drawn) == ["a/0.png", "b/0.png"]
    assert Image.open(tmp_path / "drawn" / "a" / "0.png").width > 400
    lines = done.out.splitlines()
    assert len(lines) == 2
    assert all(line.count("%") == 5 and "few)" in line for line in lines)
    told = done.err.splitlines()
    assert "bad.jpg: cannot read the image" in told[0]
    assert "gone.png: no such image" in told[1]
    assert "2 images in " in told[2]
    assert "2 of 4 images could not be read" in told[3]


def test_predict_never_writes_over_what_it_reads(run, tmp_path):
    images = tmp_path / "images"
    write_images(images, {"a": 1}, size=16)
    before = (images / "a" / "0.png").read_bytes()
    assert equigrad("predict", run, images / "a" / "0.png", "--output", images / "a", "--force").code == 0
    assert (images / "a" / "0.png").read_bytes() == before
    assert (images / "a" / "0.png.png").exists()


def test_own_images_are_trained_and_predicted_without_python(photos):
    settings = ["data.size=32", "training.schedule.epochs=1", "training.batch_size=7", "training.num_workers=0"]
    data = ["data.train=train", "data.test=test"]
    done = equigrad("train", "own_data:classification", "--run", "run", settings=[*data, *settings], folder=photos)
    assert done.code == 0, done.err
    shutil.rmtree(photos / "train")  # predict needs the run alone
    done = equigrad("predict", "run", "test", folder=photos)
    assert done.code == 0, done.err
    assert len(list((photos / "run" / "predictions").rglob("*.png"))) == 4
    assert "eel" in done.out


def test_an_archive_is_predicted_as_the_folder_in_it_and_one_bad_image_is_named(predict, runs, tmp_path):
    write_images(tmp_path / "photos", {"cat": 2, "dog": 1}, size=16)
    archive = zip_folder(tmp_path / "photos", tmp_path / "photos.zip")
    with zipfile.ZipFile(archive, "a") as opened:
        opened.writestr("dog/bad.png", b"no image")
    code, out, err = predict(
        "classifier", str(archive), "--output", str(tmp_path / "out"), "--csv", str(tmp_path / "a.csv")
    )
    assert code == 1
    assert f"{archive}/dog/bad.png: " in err
    assert err.endswith("equigrad: 1 of 4 images could not be read\n")
    assert f"{archive}/cat/1.png: " in out
    written = sorted(file.relative_to(tmp_path / "out").as_posix() for file in (tmp_path / "out").rglob("*.png"))
    assert written == ["cat/0.png", "cat/1.png", "dog/0.png"]
    assert predict("classifier", str(tmp_path / "photos"), "--no-pictures", "--csv", str(tmp_path / "b.csv"))[0] == 0
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()
    code, out, _ = predict("classifier", str(archive / "dog" / "0.png"), "--no-pictures")
    assert (code, out.count("\n")) == (0, 1)
