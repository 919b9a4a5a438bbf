import multiprocessing
import os

import pytest

from equigrad.files import atomic_folder, atomic_write, remove_temporary_files, write_atomically


def write_and_die(file):
    with atomic_write(file) as stream:
        stream.write(b"new, and all of it")
        stream.flush()
        os._exit(9)  # after the writing, before the rename


def test_a_crash_between_writing_and_renaming_leaves_the_old_file(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"old")
    child = multiprocessing.get_context("fork").Process(target=write_and_die, args=(file,))
    child.start()
    child.join()
    assert child.exitcode == 9
    assert file.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 2
    remove_temporary_files(tmp_path)
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_that_another_process_is_writing_is_left_alone(tmp_path):
    with atomic_write(tmp_path / "file") as stream:
        stream.write(b"new")
        stream.flush()
        remove_temporary_files(tmp_path)  # locks belong to open files, so one process can stand for two
        assert len(list(tmp_path.iterdir())) == 1
    assert (tmp_path / "file").read_bytes() == b"new"


def test_the_first_write_into_a_folder_removes_what_killed_processes_left(tmp_path):
    (tmp_path / ".table.csv.13108.part").write_text("half")
    (tmp_path / ".data.13108-abc.part" / "data").mkdir(parents=True)
    others = {".holiday.mp4.part", "table.13108.part"}  # of other programs
    for name in others:
        (tmp_path / name).touch()
    write_atomically(tmp_path / "file", b"new")
    assert {path.name for path in tmp_path.iterdir()} == {"file", *others}


def test_a_folder_appears_when_it_is_complete_and_removes_what_killed_processes_left(tmp_path):
    (tmp_path / ".set.13108-abc.part" / "data").mkdir(parents=True)
    with atomic_folder(tmp_path / "set") as fresh:
        (fresh / "image").touch()
        remove_temporary_files(tmp_path)  # as another process would
        assert not (tmp_path / "set").exists()
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["set", "set/image"]


def test_a_folder_that_fails_leaves_nothing(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_folder(tmp_path / "set") as fresh:
        (fresh / "folder" / "image").touch()
    assert not list(tmp_path.iterdir())


def test_an_error_while_writing_leaves_the_old_file_and_nothing_else(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"old")
    with pytest.raises(TypeError), atomic_write(file) as stream:
        stream.writelines([b"ne", "w"])  # a str among bytes
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_finished_file_replaces_the_old_one(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"old")
    with atomic_write(file) as stream:
        stream.write(b"new")
    assert file.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_is_replaced_as_a_whole(tmp_path):
    write_atomically(tmp_path / "page.html", b"one")
    write_atomically(tmp_path / "page.html", b"two")
    assert (tmp_path / "page.html").read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["page.html"]


def test_a_failure_leaves_what_was_there(tmp_path, monkeypatch):
    write_atomically(tmp_path / "page.html", b"one")
    monkeypatch.setattr(os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_atomically(tmp_path / "page.html", b"two")
    assert (tmp_path / "page.html").read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["page.html"]
