import pytest

from equigrad.data.detection.formats.category_names import category_names


def test_names_are_given_or_read_from_a_file(tmp_path):
    assert category_names(["cat", "dog"]) == ["cat", "dog"]
    (tmp_path / "a.txt").write_text("cat\n\n dog \n")
    assert category_names(tmp_path / "a.txt") == ["cat", "dog"]
    (tmp_path / "a.yaml").write_text("names: {0: no, 1: 2024-01-01}")
    assert category_names(tmp_path / "a.yaml") == ["no", "2024-01-01"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "\n", "expected one or more names"),
        ("a.yaml", "names: {1: cat}", "names: expected a list of names"),
        ("a.yaml", "[", "not a valid YAML file"),
    ],
)
def test_a_file_without_names_is_refused(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        category_names(tmp_path / name)
