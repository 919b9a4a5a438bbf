"""`equigrad compare` on generated folders of tiny images."""

import csv
import signal
from pathlib import Path

import numpy as np
import pytest

from commands.running_commands import equigrad
from equigrad.cli import main
from images_on_disk import write_images
from quick_processes import run_program
from segmentation_on_disk import write_set
from small_detection_data import write_small_data

COUNTS = {f"c{number}": count for number, count in enumerate((40, 30, 25, 12, 8, 6, 4, 4, 3, 2))}
# A network without weights on few pixels: what it learns does not matter here.
TINY = ("--image-size", "32", "--workers", "0", "--set", "backbone.weights=none")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """`photos` with both splits; one category is named like a formula and markup."""
    folder = tmp_path_factory.mktemp("compare")
    counts = {"=1+<b>c": 20, **COUNTS}
    write_images(folder / "photos" / "train", counts)
    write_images(folder / "photos" / "test", dict.fromkeys(counts, 2), seed=1)
    return folder / "photos"


@pytest.fixture(scope="module")
def finished(photos):
    """A finished comparison: its folder and what was printed."""
    words = ("--methods", "ce,softmax_eql,strong=softmax_eql,crt", "--set", "strong.loss.prior_power=2", "--seeds", "2")
    done = equigrad("compare", photos, *words, "--epochs", "2", "--folder", photos.parent / "out", *TINY)
    assert done.code == 0, done.err
    return photos.parent / "out", done.out


def test_it_says_how_long_it_takes_and_ends_with_table_and_advice(finished):
    folder, printed = finished
    lines = printed.splitlines()
    assert lines[0] == "classification: 4 methods, 2 seeds"
    assert lines[1].startswith("1 of 8  ce, seed 0: overall ")
    assert " s per row, about 0:0" in lines[1]
    assert any(line.startswith("points from ce") for line in lines)
    assert lines[-3].endswith(".")
    assert lines[-1].startswith(f"The page: {folder}/report.html")


def test_the_files_hold_rows_table_and_categories(finished):
    folder, printed = finished
    with (folder / "rows.csv").open() as stream:
        assert len(list(csv.DictReader(stream))) == 8
    with (folder / "table.csv").open() as stream:
        assert [row["method"] for row in csv.DictReader(stream)] == ["ce", "softmax_eql", "strong", "crt"]
    with (folder / "categories.csv").open() as stream:
        names = [row["name"] for row in csv.DictReader(stream)]
    assert "'=1+<b>c" in names  # no spreadsheet runs it
    page = (folder / "report.html").read_text()
    assert "=1+&lt;b&gt;c" in page
    assert "<b>" not in page
    markdown = (folder / "table.md").read_text()
    assert markdown.startswith("| % | overall | category mean | many | medium | few |")
    assert printed.splitlines()[-3] in markdown
    assert (folder / "differences.png").read_bytes().startswith(b"\x89PNG")


def test_a_variant_is_measured_with_its_own_settings(finished):
    page = (finished[0] / "report.html").read_text()
    assert page.count(">2.0<") >= 1  # method.loss.prior_power of strong
    assert "method.loss.prior_power" in page


def test_more_methods_join_a_finished_comparison_and_changed_ones_do_not(finished, photos):
    folder, _ = finished
    common = ("compare", photos, "--seeds", "2", "--folder", folder, *TINY)
    (folder / ".rows.csv.13108.part").write_text("method,")  # of a process that was killed
    done = equigrad(*common, "--methods", "ce,bce", "--epochs", "2")
    assert done.code == 0, done.err
    assert "2 of 4 rows are there from before" in done.out
    assert not list(folder.rglob("*.part"))
    done = equigrad(*common, "--methods", "ce,bce", "--epochs", "2", "--set", "bce.bias_prior=0.1")
    assert done.code == 1
    assert "bce was measured with method.bias_prior=0.001, not 0.1; choose another --folder" in done.err
    assert done.err.count("\n") == 1
    done = equigrad(*common, "--methods", "ce", "--epochs", "3")
    assert "was made with last_layer epochs=2" in done.err


def compare_and_stop(words, signal_number, num_rows):
    """A comparison that gets a signal when it has measured so many rows and replaces the file of all rows."""
    replace = Path.replace

    def replace_late(path, target):
        if target.name == "rows.csv" and len(evaluations(target.parent)) == num_rows:
            signal.raise_signal(signal_number)
        return replace(path, target)

    Path.replace = replace_late
    return main(words)


def evaluations(out):
    """When each row was written, by its file."""
    return {file: file.stat().st_mtime_ns for file in out.glob("rows/*/evaluation.json")}


def test_an_interrupted_and_a_killed_comparison_go_on(photos, tmp_path):
    out, printed = tmp_path / "out", tmp_path / "printed"
    words = ["compare", photos, "--methods", "ce,softmax_eql", "--seeds", "2", "--epochs", "2", "--folder", out, *TINY]
    words = [str(word) for word in words]
    assert run_program(compare_and_stop, words, signal.SIGINT, 1, output=printed) == 3, printed.read_text()
    assert "equigrad: stopped; the same command continues" in printed.read_text()
    first = evaluations(out)
    assert run_program(compare_and_stop, words, signal.SIGKILL, 3, output=printed) == -signal.SIGKILL
    kept = evaluations(out)
    assert len(first) == 1
    assert len(kept) == 3
    assert list(out.glob(".rows.csv.*.part"))
    done = equigrad(*words)
    assert done.code == 0, done.err
    assert "3 of 4 rows are there from before" in done.out
    found = evaluations(out)
    assert len(found) == 4
    assert first.items() <= kept.items() <= found.items()
    assert not list(out.rglob("*.part"))


@pytest.mark.slow
def test_whole_classifiers_are_trained_where_asked(photos, tmp_path):
    words = ("--trained", "--methods", "ce,crt", "--seeds", "1", "--epochs", "1", "--batch-size", "64")
    done = equigrad("compare", photos, *words, "--folder", tmp_path / "out", *TINY)
    assert done.code == 0, done.err
    assert "One seed has no spread" in done.out
    runs = sorted(path.name for path in (tmp_path / "out" / "rows").iterdir())
    assert runs == ["ce_0", "crt_0"]  # the second starts from the first
    assert all((tmp_path / "out" / "rows" / run / "recipe.json").exists() for run in runs)


@pytest.mark.slow
def test_label_maps_are_compared_by_trained_models(tmp_path):
    labels = np.kron([[0, 1], [1, 2]], np.ones((24, 32), dtype=np.uint8))
    write_set(tmp_path / "maps", dict.fromkeys("abcdefgh", labels))
    words = ("--methods", "ce,softmax_eql", "--seeds", "1", "--epochs", "1", "--batch-size", "2", "--workers", "0")
    settings = ("data.crop_size=32,32", "data.base=none", "training.schedule.warmup.length=1")
    done = equigrad("compare", tmp_path / "maps", *words, "--folder", tmp_path / "out", settings=settings)
    assert done.code == 0, done.err
    assert "category mean (mIoU)" in done.out


@pytest.mark.slow
def test_objects_are_compared_by_trained_models(tmp_path):
    root = write_small_data(tmp_path)
    words = (
        "--task",
        "detection",
        "--test",
        root / "test.json",
        "--methods",
        "fl,efl",
        "--seeds",
        "1",
        "--epochs",
        "1",
    )
    settings = ("preprocessing.short=64", "preprocessing.test_short=64", "preprocessing.long=96")
    tiny = ("--batch-size", "4", "--workers", "0", "--folder", root / "out")
    done = equigrad("compare", root / "train.json", *words, *tiny, settings=settings)
    assert done.code == 0, done.err
    assert "overall (AP-pool)" in done.out


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        (["--methods", "ce,eql"], "--methods eql: classification has ce, bce, ", 2),
        (["--methods", ","], "--methods: expected comma-separated names of ce, bce", 2),
        (["--methods", "ce,ce"], "--methods ce: ce is there twice; name a variant: --methods ce,NAME=ce", 2),
        (["--methods", "../x=ce"], "--methods ../x=ce: the name of a variant must be new, of letters", 2),
        (["--methods", "bce=ce"], "--methods bce=ce: the name of a variant must be new", 2),
        (["--methods", "crt", "--trained"], "--methods crt: it starts from a run with ce; add ce before it", 2),
        (
            ["--task", "detector"],
            "--task detector: expected one of classification, multi_label, semantic_segmentation",
            2,
        ),
        (["--set", "ce.loss.power=2"], "--set ce.loss.power: no field 'power' in SoftmaxEql", 2),
        (["--set", "ce"], "--set ce: expected field=value", 2),
        (["--set", "training.batch_size=2"], "--set training.batch_size=2: is for --trained", 2),
        (["--epochs", "1.5"], "--epochs 1.5: a last layer is trained for whole epochs", 2),
        (["--frozen", "backbone"], "--frozen backbone: without --trained the backbone is frozen anyway", 2),
        (["--test", "nowhere"], "nowhere: no such file or folder; name yours with", 1),
    ],
)
def test_a_wrong_word_gets_one_line_and_writes_nothing(photos, tmp_path, words, message, code):
    done = equigrad("compare", photos, *words, "--folder", tmp_path / "out")
    assert done.code == code
    assert message in done.err
    assert done.err.count("\n") == 1
    assert not list(tmp_path.rglob("rows"))


def test_a_single_category_is_nothing_to_compare(tmp_path):
    write_images(tmp_path / "photos", {"cat": 4})
    done = equigrad("compare", tmp_path / "photos", "--folder", tmp_path / "out")
    problem = "a single category, so there is nothing to distinguish: cat, with all 4 images"
    assert done.err == f"equigrad: {tmp_path}/photos: {problem}\n"


def test_wrong_usage_has_its_own_code(photos):
    done = equigrad("compare", photos, "--seeds", "0")
    assert done.code == 2
    assert "argument --seeds: expected a whole number from 1, got '0'" in done.err


@pytest.fixture(scope="module")
def many_labels(tmp_path_factory):
    """Images with two, one or none of six categories, in folders with a file of labels."""
    folder = tmp_path_factory.mktemp("many_labels")
    for part, count in {"train": 24, "test": 12}.items():
        write_images(folder / part, {"a": count}, size=16, seed=len(part))
        pairs = [f"c{number % 6};c{number % 4}" if number % 5 else "" for number in range(count)]
        rows = [f"a/{number}.png,{categories}\n" for number, categories in enumerate(pairs)]
        (folder / part / "labels.csv").write_text("image,categories\n" + "".join(rows))
    return folder


def test_images_with_several_categories_are_compared_by_average_precision(many_labels, tmp_path):
    words = ("--seeds", "2", "--epochs", "2", "--folder", tmp_path / "out", *TINY)
    done = equigrad("compare", many_labels, *words)
    assert done.code == 0, done.err
    assert done.out.startswith("multi label: 4 methods, 2 seeds\n")  # bce, fl, sigmoid_eql, efl
    assert "overall (F1)  category mean (mAP)" in done.out
    assert "points from bce" in done.out
    again = equigrad("compare", many_labels, *words, "--methods", "bce,fl_eql")
    assert "2 of 4 rows are there from before" in again.out
    assert "--methods ce: multi_label has bce, " in equigrad("compare", many_labels, "--methods", "ce").err


def test_the_categories_of_objects_are_compared_without_their_boxes(tmp_path):
    root = write_small_data(tmp_path)
    words = ("--task", "multi_label", "--images", root / "images", "--seeds", "1", "--epochs", "1")
    done = equigrad("compare", root / "train.json", *words, "--folder", root / "out", *TINY)
    assert done.code == 0, done.err
    assert "category mean (mAP)" in done.out
