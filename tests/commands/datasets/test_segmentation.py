"""`equigrad data` of images and index PNGs: counts, checks and long-tailed subsets."""

from pathlib import Path

import pytest

from equigrad.cli import main
from equigrad.tasks.segmentation.data import LabelFolders
from segmentation_on_disk import write_set

MAPS = {"a": [[0, 1], [1, 2]], "b": [[1, 1], [255, 1]]}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder, with a training set in `train` and a test set in `test`."""
    monkeypatch.chdir(tmp_path)
    write_set(Path("train"), MAPS)
    write_set(Path("test"), {"c": [[0, 1, 2]]})
    return tmp_path


def options(part="train"):
    return [f"{part}/images", "--labels", f"{part}/labels", "--names", f"{part}/classes.txt"]


def test_counts_are_pixels_and_images_of_each_category(folder, capsys):
    assert main(["data", "counts", *options()]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[4:]]
    assert [(row[1], row[3]) for row in rows] == [("5", "2"), ("1", "1"), ("1", "1")]


def test_counts_are_written_as_a_table(folder):
    assert main(["data", "counts", *options(), "--csv", "counts.csv"]) == 0
    header, *rows = Path("counts.csv").read_text().splitlines()
    assert header == "label,name,pixels,images"
    assert rows == ["0,road,1,1", "1,sky,5,2", "2,tram,1,1"]


def test_good_folders_are_fit_for_training(folder, capsys):
    words = ["data", "check", *options(), "--test", "test/images", "--test-labels", "test/labels", "--decode"]
    assert main(words) == 0
    assert "2 images of train/images and 1 images of test/images, 3 categories: nothing" in capsys.readouterr().out


def test_a_root_is_what_all_folders_start_from(folder, capsys):
    words = ["data", "check", "images", "--labels", "labels", "--names", "train/classes.txt", "--root", "train"]
    assert main(words) == 0
    assert "2 images" in capsys.readouterr().out


def test_a_value_without_name_is_named_with_its_file_unless_it_is_ignored(folder, capsys):
    write_set(Path("train"), {**MAPS, "d": [[9, 1]]})
    assert main(["data", "check", *options()]) == 1
    printed = capsys.readouterr()
    assert "error: " in printed.out
    assert "d.png" in printed.out
    assert printed.err.splitlines()[-1].startswith("equigrad: train/images: 1 kind of fault would")
    assert main(["data", "check", *options(), "--ignored", "9", "255"]) == 0


def test_a_category_without_pixels_is_a_note(folder, capsys):
    Path("train/classes.txt").write_text("sky\nroad\ncar\nowl\n")
    assert main(["data", "check", *options()]) == 0
    assert "note: train/images: categories without pixels: owl" in capsys.readouterr().out


def test_a_long_tailed_subset_of_any_folders_is_what_a_recipe_trains_on(folder, capsys):
    layout = ["--images", "train/images", "--labels", "train/labels", "--names", "train/classes.txt"]
    assert main(["data", "ade20k-lt", ".", *layout, "--rho", "1", "--order", "pixels", "--output", "list.txt"]) == 0
    assert "1 of 2 images kept" in capsys.readouterr().out
    folders = LabelFolders(
        images=Path("train/images"),
        labels=Path("train/labels"),
        names=Path("train/classes.txt"),
        test_images=Path("test/images"),
        test_labels=Path("test/labels"),
        train_list=Path("list.txt"),
    )
    train, test = folders.load()
    assert train.data.names == ("b",)
    assert len(test) == 1


def test_ignored_values_may_be_any_in_a_long_tailed_subset(folder, capsys):
    write_set(Path("marked"), {"a": [[0, 1]], "b": [[1, 7]]})
    command = ["data", "ade20k-lt", "marked", "--images", "images", "--labels", "labels"]
    command += ["--names", "marked/classes.txt", "--rho", "0", "--output", "list.txt"]
    assert main(command) == 1
    assert "7" in capsys.readouterr().err
    assert main([*command, "--ignored", "7", "255"]) == 0
    assert Path("list.txt").read_text().split() == ["a", "b"]


def test_without_test_images_some_of_the_listed_ones_are_held_out(folder):
    names = [f"i{number}" for number in range(10)]
    write_set(Path("many"), dict.fromkeys(names, MAPS["a"]))
    Path("list.txt").write_text("\n".join(names[:5]))
    train, test = LabelFolders(root=Path("many"), names=Path("many/classes.txt"), train_list=Path("list.txt")).load()
    assert (len(train), len(test)) == (4, 1)
    assert {*train.data.names, *test.data.names} == {*names[:5]}


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        (["counts", "train/images", "--labels", "train/labels"], "--labels needs --names FILE", 2),
        (["check", *options(), "--test", "test/images"], "give both --test and --test-labels", 2),
        (["ade20k-lt", "train", "--labels", "labels", "--output", "list.txt"], "--images, --labels and --names", 2),
        (["check", "train/images", "--labels", "nowhere", "--names", "train/classes.txt"], "nowhere", 1),
    ],
)
def test_what_is_missing_is_said_in_one_line(folder, capsys, words, message, code):
    assert main(["data", *words]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
