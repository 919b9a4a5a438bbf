import os

import numpy as np
import pytest

from equigrad.data.detection.formats import csv_blocks as module
from equigrad.data.detection.formats.csv_blocks import csv_blocks
from hostile_files import refusal

TYPES = {"ImageID": "S8", "XMin": "f8"}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "rows.csv"


def test_columns_are_found_by_name_in_any_order_and_others_are_passed_over(file):
    file.write_text("Source,XMin,ImageID\nxclick,0.25,a\nxclick,0.5,b\n")
    (block,) = csv_blocks(file, TYPES)
    assert block["ImageID"].tolist() == [b"a", b"b"]
    assert block["XMin"].tolist() == [0.25, 0.5]


def test_names_are_found_whatever_their_case_and_underscores(file):
    file.write_text("image_id,x_min\na,0.25\n")
    (block,) = csv_blocks(file, TYPES)
    assert block["ImageID"].tolist() == [b"a"]


def test_optional_columns_may_be_missing(file):
    file.write_text("ImageID,XMin\na,0\n")
    (block,) = csv_blocks(file, TYPES, {"IsGroupOf": "f8"})
    assert "IsGroupOf" not in block
    file.write_text("ImageID,XMin,IsGroupOf\na,0,1\n")
    (block,) = csv_blocks(file, TYPES, {"IsGroupOf": "f8"})
    assert block["IsGroupOf"].tolist() == [1]


def test_a_byte_order_mark_windows_line_ends_and_empty_lines_do_no_harm(file):
    file.write_bytes(b"\xef\xbb\xbfImageID,XMin\r\na,0.25\r\n\r\nb,0.5")
    (block,) = csv_blocks(file, TYPES)
    assert block["ImageID"].tolist() == [b"a", b"b"]


def test_a_large_file_comes_in_blocks_that_join_to_all_rows(file, monkeypatch):
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 7)
    file.write_text("ImageID,XMin\n" + "".join(f"i{row},{row}\n" for row in range(21)))
    blocks = list(csv_blocks(file, TYPES))
    assert [len(block) for block in blocks] == [7, 7, 7]
    assert [block.start for block in blocks] == [0, 7, 14]
    assert np.concatenate([block["XMin"] for block in blocks]).tolist() == list(range(21))


def test_a_file_with_a_header_alone_has_no_blocks(file):
    file.write_text("ImageID,XMin\n")
    assert list(csv_blocks(file, TYPES)) == []


def test_a_missing_column_is_named(file):
    for content in ("ImageID,YMin\na,1\n", ""):
        file.write_text(content)
        with pytest.raises(ValueError, match=r"rows\.csv, line 1: expected the column"):
            list(csv_blocks(file, TYPES))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("d,wide", "line 7: XMin must be a number, got 'wide'"),
        ("d,", "line 7: XMin must be a number, got ''"),
        ("d", "line 7: XMin is missing, got 'd'"),
    ],
)
def test_a_row_that_cannot_be_read_is_named_by_its_line_and_field(file, monkeypatch, line, message):
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 2)
    file.write_text(f"ImageID,XMin\na,1\nb,2\n\nc,3\nd,4\n{line}\n")
    with pytest.raises(ValueError, match=message) as error:
        list(csv_blocks(file, TYPES))
    assert str(error.value).startswith(f"{file}, ")


def test_a_row_that_breaks_a_rule_is_named_by_its_line_and_field(file, monkeypatch):
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 2)
    file.write_text("ImageID,XMin\na,1\nb,2\n\nc,3\nd,-4\ne,-5\n")
    first, second, _ = csv_blocks(file, TYPES)
    first.require(first["XMin"] >= 0, "XMin", "at least 0")
    with pytest.raises(ValueError, match=r"rows\.csv, line 6: XMin must be at least 0, got '-4'"):
        second.require(second["XMin"] >= 0, "XMin", "at least 0")


def test_a_line_without_end_is_refused(tmp_path):
    file = tmp_path / "boxes.csv"
    for start in (b"", b"ImageID,XMin\n"):
        file.write_bytes(start)
        os.truncate(file, 4 << 30)
        assert refusal(read_all, file) == f"{file}: expected lines of up to 1,048,576 bytes, got a longer one"


def read_all(file):
    return list(csv_blocks(file, {"ImageID": "S32", "XMin": "f8"}))
