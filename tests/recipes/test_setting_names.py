import subprocess
import sys

import pytest

from equigrad.recipes.catalogue import all_recipes, load_recipe
from equigrad.recipes.names import recipe_names
from equigrad.recipes.setting_names import check_settings, recipe_parameters, setting_paths
from equigrad.settings import list_settings


@pytest.mark.parametrize("name", recipe_names())
def test_the_source_has_every_setting_that_a_recipe_has(name):
    functions = dict(all_recipes())
    settings = list(list_settings(load_recipe(name).recipe))
    assert {setting.path for setting in settings} <= set(setting_paths(name))
    assert set(functions[name].__annotations__) - {"return"} == set(recipe_parameters(name))


@pytest.mark.parametrize("name", recipe_names())
def test_every_value_that_a_recipe_has_is_accepted(name):
    for path, _, value, _ in list_settings(load_recipe(name).recipe):
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value).replace("None", "none")
        is_text = not isinstance(value, tuple) or all(isinstance(item, int | float | str) for item in value)
        if is_text and path not in recipe_parameters(name):  # an argument of that name comes first
            check_settings(name, [f"{path}={text}"])


@pytest.mark.parametrize(
    ("assignment", "line"),
    [
        ("lr=0.1", "no field 'lr' in DetectionRecipe, which has data, .*; did you mean training.optimizer.lr?"),
        ("data.imges=x", "no field 'imges' in data, which may have train, .*; did you mean data.images?"),
        ("unheard=1", "equigrad train own_data:detection --help lists all settings"),
        ("training.log_every.often=1", "no field 'often' in training.log_every, which has no fields"),
        ("training.optimizer=Adam", "expected SGD or AdamW; did you mean AdamW?"),
        ("training.log_every=often", "training.log_every=often: expected a whole number"),
        ("detector=ssd", "expected none or one of atss, faster_rcnn"),
        ("lr", "--set lr: expected field=value"),
    ],
)
def test_what_no_recipe_of_this_name_can_have_is_refused_with_the_remedy(assignment, line):
    with pytest.raises(ValueError, match=line):
        check_settings("own_data:detection", [assignment])


def test_fields_of_a_class_that_is_set_too_are_accepted():
    check_settings("own_data:detection", ["training.optimizer=SGD", "training.optimizer.momentum=0.9", "method=efl"])


def test_settings_of_own_modules_are_left_to_their_recipes():
    check_settings("mine:recipe", ["anything=1"])


@pytest.mark.parametrize("words", ["--set lr=0.1", "--method elf", "--detector atss", "--set training.log_every=x"])
def test_a_refused_setting_does_not_import_torch(words, tmp_path):
    code = (
        "import sys; from equigrad.cli import main; "
        f"code = main(['train', 'own_data:classification', *{words.split()!r}]); "
        "print(code, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "2 False", done.stderr
