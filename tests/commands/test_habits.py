"""What other tools call it: each word has a remedy that works, and stands on the page of habits."""

import dataclasses
import inspect
import re
from pathlib import Path

import pytest

from equigrad.commands.habits import HABITS, check_habits
from equigrad.recipes.catalogue import all_recipes, load_recipe

PAGE = Path(__file__).parents[2] / "docs" / "habits.md"


def test_every_setting_that_a_remedy_names_exists():
    named = {setting for text in HABITS.values() for setting in re.findall(r"--set (training\S+=\w+)", text)}
    assert len(named) >= 12
    for setting in named:
        load_recipe("tiny:ce", [setting])


def test_no_word_is_a_setting_or_an_argument_of_a_recipe():
    for name, function in all_recipes():
        fields = {field.name for field in dataclasses.fields(function())}
        assert HABITS.keys() & (fields | inspect.signature(function).parameters.keys()) <= {"data"}, name


def test_a_word_of_another_tool_is_refused_for_recipes_of_the_package_only():
    with pytest.raises(ValueError, match=r"^--set batch: no such setting; here: --batch-size is that of all"):
        check_habits("tiny:ce", ["training.seed=1", "batch=16"])
    check_habits("mine:recipe", ["batch=16"])
    check_habits("tiny:ce", ["data=GlyphImages"])


def test_the_page_of_habits_has_every_word():
    words = set(re.findall(r"`-*([a-z][a-z0-9_-]*)", PAGE.read_text()))
    assert {word for word in HABITS if word not in {found.replace("-", "_") for found in words}} == set()
