import math

import pytest

from equigrad.analysis.json_files import is_number, kind_of, read_object


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"[1]", "must hold one object, got list"), (b"null", "must hold one object, got nothing"), (b"{", "is not JSON")],
)
def test_a_file_without_one_object_is_refused_in_one_line(tmp_path, content, message):
    file = tmp_path / "recipe.json"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        read_object(file)
    assert str(error.value).startswith(f"{file}: ")
    assert "\n" not in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"recipe\.json: no such file"):
        read_object(tmp_path / "recipe.json")


@pytest.mark.parametrize(
    ("value", "expected"), [(1, True), (0.5, True), (True, False), (math.nan, False), ("1", False)]
)
def test_numbers_are_finite_and_no_truth_values(value, expected):
    assert is_number(value) is expected


def test_an_absent_value_is_called_nothing():
    assert (kind_of(None), kind_of(1.0)) == ("nothing", "float")
