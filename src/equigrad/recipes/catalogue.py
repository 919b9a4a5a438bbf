"""Recipes by name: `module:function` below `equigrad.recipes`, or any other importable module."""

import importlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_args

from equigrad.recipes.classification import ClassificationRecipe
from equigrad.recipes.detection import DetectionRecipe
from equigrad.recipes.overrides import override, parse_text
from equigrad.recipes.segmentation import SegmentationRecipe

MODULES = (
    "tiny",
    "own_data",
    "image_classification",
    "semantic_segmentation",
    "camvid",
    "glyph_objects",
    "small_detection",
    "one_stage",
    "yolox",
    "two_stage",
)

Recipe = ClassificationRecipe | DetectionRecipe | SegmentationRecipe


def all_recipes() -> Iterator[tuple[str, Callable[..., Recipe]]]:
    """Every recipe of the package, with its name."""
    for module_name in MODULES:
        module = importlib.import_module(f"equigrad.recipes.{module_name}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__ and not name.startswith("_"):
                yield f"{module_name}:{name}", function


def load_recipe(name: str, assignments: Sequence[str] = ()) -> Recipe:
    """The recipe of a name, with `--set` assignments: arguments of its function by plain name, else fields by path.

    Raises:
        ValueError: one line on what is wrong with the name or an assignment.
    """
    function = _function(name)
    parameters = inspect.signature(function).parameters
    arguments: dict[str, Any] = {}
    fields = []
    for assignment in assignments:
        path, _, text = assignment.partition("=")
        if path in parameters:
            arguments[path] = parse_text(text, parameters[path].annotation, path)
        else:
            fields.append(assignment)
    return override(function(**arguments), fields)


def rows_of_recipe(name: str, assignments: Sequence[str] = ()) -> list[list[str]]:
    """What to set for every row of its table that a recipe stands for: all its methods, unless one is set."""
    parameter = inspect.signature(_function(name)).parameters.get("method")
    if parameter is None or any(assignment.startswith("method=") for assignment in assignments):
        return [list(assignments)]
    return [[f"method={method}", *assignments] for method in get_args(parameter.annotation)]


def _function(name: str) -> Callable[..., Recipe]:
    module_name, separator, function_name = name.partition(":")
    if not separator:
        raise ValueError(f"recipe {name!r}: expected module:function, such as tiny:softmax_eql; see `equigrad recipes`")
    path = f"equigrad.recipes.{module_name}" if module_name in MODULES else module_name
    try:
        module = importlib.import_module(path)
    except ModuleNotFoundError as error:
        raise ValueError(f"recipe {name!r}: no module {module_name!r} ({error}); see `equigrad recipes`") from None
    function = getattr(module, function_name, None)
    if not callable(function):
        known = [known for known, _ in all_recipes() if known.startswith(f"{module_name}:")]
        raise ValueError(f"recipe {name!r}: no such function; {module_name} has {', '.join(known) or 'no recipes'}")
    recipe: Callable[..., Recipe] = function
    return recipe
