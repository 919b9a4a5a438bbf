import json

import pytest

from equigrad.data.glyphs.writing import write_once


def write_hello(root):
    (root / "hello.txt").write_text("hello")


def refuse(root):
    raise AssertionError("nothing should be written")


def test_a_folder_is_written_once_and_then_left_alone(tmp_path):
    folder = write_once(tmp_path / "new" / "data", {"size": (1, 2)}, write_hello)
    assert (folder / "hello.txt").read_text() == "hello"
    assert write_once(folder, {"size": (1, 2)}, refuse) == folder


def test_an_empty_folder_is_filled(tmp_path):
    (tmp_path / "data").mkdir()
    write_once(tmp_path / "data", {}, write_hello)
    assert (tmp_path / "data" / "hello.txt").exists()


def test_other_settings_are_refused_by_name(tmp_path):
    write_once(tmp_path / "data", {"seed": 0, "size": 1}, write_hello)
    with pytest.raises(FileExistsError, match=r"data made with another seed;"):
        write_once(tmp_path / "data", {"seed": 1, "size": 1}, refuse)


def test_a_folder_with_anything_else_is_refused_and_untouched(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(FileExistsError, match="expected a new or empty folder, but it has other content"):
        write_once(tmp_path, {}, refuse)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "data").write_text("a file")
    with pytest.raises(FileExistsError, match="expected a new or empty folder, but it has other content"):
        write_once(tmp_path / "data", {}, refuse)


def test_a_failure_leaves_nothing_behind(tmp_path):
    def fail(root):
        write_hello(root)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_once(tmp_path / "data", {}, fail)
    assert list(tmp_path.iterdir()) == []


def test_of_two_processes_that_write_the_same_the_first_wins(tmp_path):
    def overtaken(root):
        write_once(tmp_path / "data", {"seed": 0}, write_hello)
        (root / "hello.txt").write_text("late")

    write_once(tmp_path / "data", {"seed": 0}, overtaken)
    assert (tmp_path / "data" / "hello.txt").read_text() == "hello"
    assert json.loads((tmp_path / "data" / "manifest.json").read_text()) == {"seed": 0}
