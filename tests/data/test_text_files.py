import os

import pytest

from equigrad.data.text_files import csv_rows, csv_table, name_lines, read_small, text_lines
from hostile_files import refusal


@pytest.fixture
def endless(tmp_path):
    """A file of 4 GB without a line break, which takes no space on the disk."""
    file = tmp_path / "endless.csv"
    file.write_bytes(b"label,name\n")
    os.truncate(file, 4 << 30)
    return file


def read_lines(file):
    return list(text_lines(file))


def read_rows(file):
    return list(csv_rows(file))


@pytest.mark.parametrize("read", [read_lines, name_lines, read_rows, csv_table])
def test_a_line_without_end_is_refused(endless, read):
    assert refusal(read, endless).startswith(f"{endless}: expected lines of up to")


def test_a_field_without_end_is_refused(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text('"' + "x\n" * 200_000)
    assert "a.csv, line 65537: not CSV (field larger than" in refusal(csv_table, file)


def test_too_many_names_are_refused(tmp_path):
    file = tmp_path / "names.txt"
    file.write_bytes(b"\n" * (8 << 20))
    assert "expected at most 1,000,000 categories" in refusal(name_lines, file)


def test_other_bytes_than_utf8_are_refused(tmp_path):
    file = tmp_path / "names.txt"
    file.write_bytes(b"caf\xe9\n")
    said = "expected text in UTF-8, got other bytes (invalid continuation byte); save it as UTF-8"
    assert refusal(name_lines, file) == f"{file}: {said}"


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "no such file" in refusal(read_small, tmp_path / "pipe", 100)


def test_rows_have_columns_in_lower_case_and_no_missing_cells(tmp_path):
    file = tmp_path / "classes.csv"
    file.write_bytes('\ufeffId,Name\r\n1,"a, b"\r\n\r\n2\r\n'.encode())
    assert csv_table(file) == [{"id": "1", "name": "a, b"}, {"id": "2", "name": ""}]
