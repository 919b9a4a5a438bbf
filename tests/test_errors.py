import pytest

from equigrad.engine import EngineError
from equigrad.errors import one_line, reason


def test_an_engine_error_is_caught_where_wrong_values_are():
    assert issubclass(EngineError, ValueError)


def test_the_text_of_an_error_becomes_one_line():
    error = RuntimeError("Error(s) in loading:\n\tsize mismatch for head.weight\n\n  copying a param ")
    assert one_line(error) == "Error(s) in loading: size mismatch for head.weight copying a param"


def test_an_error_without_text_stays_empty():
    assert one_line(KeyboardInterrupt()) == ""


def test_an_error_of_the_system_is_the_file_and_the_reason_without_a_number(tmp_path):
    for failing in (lambda: (tmp_path / "gone").read_text(), lambda: tmp_path.read_text()):
        with pytest.raises(OSError, match="Errno") as error:
            failing()
        assert one_line(error.value) == f"{error.value.filename}: {error.value.strerror}"
        assert reason(error.value) == error.value.strerror


def test_the_file_of_an_error_cannot_move_the_terminal():
    error = FileNotFoundError(2, "No such file or directory", "a\x1b[2J\nb")
    assert one_line(error) == "a\\x1b[2J\\nb: No such file or directory"


def test_an_own_text_of_a_system_error_stays():
    assert one_line(FileNotFoundError("photo.jpg: no such image")) == "photo.jpg: no such image"
