import pytest

from equigrad.recipes.catalogue import all_recipes
from equigrad.recipes.names import check_recipe_name, recipe_names


def test_the_names_are_those_of_the_recipes():
    assert sorted(recipe_names()) == sorted(name for name, _ in all_recipes())
    for name in recipe_names():
        check_recipe_name(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tiny", "tiny has tiny:ce, tiny:softmax_eql"),
        ("tiny:", "tiny has tiny:ce"),
        ("tiny:softmax", "did you mean tiny:softmax_eql"),
        ("tinny:ce", "no module 'tinny', in the current folder or installed; did you mean tiny:ce"),
        ("softmax_eql", "expected module:function, such as tiny:softmax_eql"),
        (":ce", "no module ''"),
        ("a..b:ce", "no module 'a..b'"),
        ("one_stage:x", "see `equigrad recipes`"),
    ],
)
def test_a_wrong_name_gets_the_nearest_right_one(name, message):
    with pytest.raises(ValueError, match=r"^recipe ") as error:
        check_recipe_name(name)
    assert message in str(error.value)


def test_a_module_in_the_current_folder_is_found_without_running_it(tmp_path, monkeypatch):
    (tmp_path / "found_recipes.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["/usr/nothing"])
    check_recipe_name("found_recipes:mine")
