import os

import pytest

from equigrad.analysis.writing import write_atomically


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
