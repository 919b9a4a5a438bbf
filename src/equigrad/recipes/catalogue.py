"""Recipes by name: `module:function` below `equigrad.recipes`, or any other importable module."""

import dataclasses
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, get_args

from equigrad.engine import EngineError
from equigrad.errors import UsageError
from equigrad.recipes.names import MODULES, check_recipe_name
from equigrad.run_files import RECIPE, read_recipe
from equigrad.settings import choices_of, differences, from_json, nearest, override, parse_text, to_json
from equigrad.tasks.run_folder import Recipe, recipe_of_run

MAY_CHANGE = (
    "check_images",
    "device",
    "shown",
    "test_batch_size",
    "training.accumulate",
    "training.checkpoint_every",
    "training.evaluate_every",
    "training.keep_best",
    "training.keep_checkpoints",
    "training.log_every",
    "training.num_workers",
    "training.on_error",
    "training.prefetch",
    "training.schedule",
    "training.statistics_every",
)
"""Settings that may differ in a resumed run, besides the paths of its data; a longer schedule trains further."""


class NamedRecipe(NamedTuple):
    """A recipe, and how it was asked for."""

    name: str
    assignments: Sequence[str]  # as given by --set
    arguments: Mapping[str, Any]  # those of them that are arguments of its function
    recipe: Recipe

    def source(self) -> dict[str, Any]:
        """What `recipe.json` says about it: enough to rebuild it without the function."""
        return {
            "recipe": self.name,
            "set": list(self.assignments),
            "arguments": {name: to_json(value) for name, value in self.arguments.items()},
            "settings": to_json(self.recipe),
        }


def all_recipes() -> Iterator[tuple[str, Callable[..., Recipe]]]:
    """Every recipe of the package, with its name."""
    for module_name in MODULES:
        module = importlib.import_module(f"equigrad.recipes.{module_name}")
        for name, function in _recipes_in(module).items():
            yield f"{module_name}:{name}", function


def load_recipe(name: str, assignments: Sequence[str] = ()) -> NamedRecipe:
    """The recipe of a name, with `--set` assignments: arguments of its function by plain name, else fields by path.

    Raises:
        ValueError: one line on what is wrong with the name or an assignment.
    """
    function = recipe_function(name)
    arguments, fields = _split(function, assignments)
    recipe = function(**arguments)
    if not isinstance(recipe, Recipe):
        raise ValueError(f"recipe {name!r}: the function must return a recipe, got {type(recipe).__name__}")
    changed = override(recipe, fields, more_names=inspect.signature(function).parameters)
    return NamedRecipe(name, assignments, arguments, changed)


def resumed_recipe(folder: Path, name: str, assignments: Sequence[str]) -> NamedRecipe:
    """The recipe of a resumed run, from its folder; EngineError if the name or an assignment asks for another."""
    check_links(folder)
    content = read_recipe(folder)
    if content.get("recipe") != name:
        raise EngineError(f"{folder} is a run of {content.get('recipe')}, which cannot continue as {name}")
    function = recipe_function(name)
    stored, arguments = _trained_recipe(folder, name), _stored_arguments(folder, function)
    given, fields = _split(function, assignments)
    parameters = inspect.signature(function).parameters
    for argument, value in given.items():
        trained_with = arguments.get(argument, parameters[argument].default)
        if trained_with != value:
            raise EngineError(f"{folder} was trained with {argument}={trained_with}, not with {value}")
    recipe = override(stored, fields)
    for path, (old, new) in differences(stored, recipe).items():
        is_path = path.startswith("data.") and isinstance(new, Path)
        if not is_path and not any(path == allowed or path.startswith(f"{allowed}.") for allowed in MAY_CHANGE):
            raise EngineError(f"{folder} was trained with {path}={old}, which cannot change to {new} when it continues")
    return NamedRecipe(name, [*_stored_assignments(folder), *assignments], arguments, recipe)


def _trained_recipe(folder: Path, name: str) -> Recipe:
    """The recipe of a run; where it has parts of the user's own module, by the function that the user names again."""
    try:
        return recipe_of_run(folder)
    except EngineError:
        if name.partition(":")[0] in MODULES:
            raise
        return load_recipe(name, _stored_assignments(folder)).recipe


def changed_recipe(folder: Path, assignments: Sequence[str], own: str | None = None) -> Recipe:
    """The recipe of a run with other settings; arguments of its function only where it is a recipe of the package.

    Args:
        folder: the run folder.
        assignments: what to change.
        own: name of the user's own recipe, for a run with parts that the package does not know. It is imported, which
            a name in a run folder never is.
    """
    check_links(folder)
    if own is not None:
        return load_recipe(own, [*_stored_assignments(folder), *assignments]).recipe
    name, stored = str(read_recipe(folder).get("recipe", "")), recipe_of_run(folder)
    if name.partition(":")[0] not in MODULES:
        return override(stored, assignments)
    try:
        function = recipe_function(name)
    except ValueError as error:
        raise EngineError(f"{folder / RECIPE}: {error}") from None
    given, fields = _split(function, assignments)
    if given:
        arguments = _stored_arguments(folder, function)
        # Only what the arguments change is taken over: a default that differs from that of the run stays the run's.
        before, after = function(**arguments), function(**{**arguments, **given})
        changed = {path.partition(".")[0] for path in differences(before, after)}
        stored = dataclasses.replace(stored, **{field: getattr(after, field) for field in changed})
    return override(stored, fields)


def check_links(folder: Path) -> None:
    """EngineError if a symbolic link leaves a run folder: files would be written and removed elsewhere."""
    inside = os.path.join(os.path.realpath(folder), "")
    for parent, folders, files in os.walk(folder):
        for path in (os.path.join(parent, name) for name in (*folders, *files)):
            if os.path.islink(path) and not os.path.realpath(path).startswith(inside):
                raise EngineError(f"{path}: a symbolic link that leaves {folder}; all files of a run lie in its folder")


def rows_of_recipe(name: str, assignments: Sequence[str] = ()) -> list[list[str]]:
    """What to set for every row of its table that a recipe stands for: all its methods, unless one is set."""
    function = recipe_function(name)
    parameter = inspect.signature(function).parameters.get("method")
    if parameter is None or any(assignment.startswith("method=") for assignment in assignments):
        return [list(assignments)]
    rows = [[f"method={method}", *assignments] for method in choices_of(parameter.annotation)]
    return [row for row in rows if _go_together(function, row)] or rows


def _go_together(function: Callable[..., Recipe], assignments: Sequence[str]) -> bool:
    """Whether a recipe takes these arguments, as a detector takes some of the methods."""
    arguments, _ = _split(function, assignments)
    try:
        function(**arguments)
    except ValueError:
        return False
    return True


def recipe_function(name: str) -> Callable[..., Recipe]:
    """The function of a recipe; ValueError with one line, and the nearest name, if there is none."""
    check_recipe_name(name)
    module_name, _, function_name = name.partition(":")
    if module_name in MODULES:
        found = _recipes_in(importlib.import_module(f"equigrad.recipes.{module_name}"))
    else:
        functions = inspect.getmembers(_own_module(name), inspect.isfunction)
        found = {key: function for key, function in functions if _may_return_recipe(function)}
    if function_name not in found:
        known = [f"{module_name}:{known}" for known in found]
        hint = nearest(name, known) or f"; {module_name} has {', '.join(known) or 'no recipes'}"
        if module_name not in MODULES and _is_hidden(module_name):
            hint = f"; {module_name} is another module, which is found first: rename {module_name}.py"
        raise UsageError(f"recipe {name!r}: no such recipe{hint}")
    return found[function_name]


def _own_module(name: str) -> ModuleType:
    """The module of a user's own recipe, which `check_recipe_name` has found."""
    try:
        return importlib.import_module(name.partition(":")[0])
    except ModuleNotFoundError as error:
        raise ValueError(f"recipe {name!r}: {error}, which its module imports") from None
    except SyntaxError as error:
        raise ValueError(f"recipe {name!r}: {error.filename}, line {error.lineno}: {error.msg}") from None


def _is_hidden(module_name: str) -> bool:
    """Whether the current folder has a module of this name that is not the one that was imported."""
    own, found = Path(f"{module_name}.py"), getattr(sys.modules[module_name], "__file__", None)
    return own.is_file() and (found is None or not own.samefile(found))


def _recipes_in(module: ModuleType) -> dict[str, Callable[..., Recipe]]:
    """The recipes that a module of the package defines."""
    return {
        name: function
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }


def _may_return_recipe(function: Callable[..., Any]) -> bool:
    """Whether the annotation of a function allows that it returns a recipe; nothing else is ever called."""
    returned = inspect.signature(function).return_annotation
    if isinstance(returned, str):  # the module postpones annotations
        return returned.rpartition(".")[2] in {kind.__name__ for kind in get_args(Recipe)} | {"Recipe"}
    return returned in (inspect.Signature.empty, Recipe, *get_args(Recipe))


def _stored_assignments(folder: Path) -> list[str]:
    """What a run was started with, by `--set`."""
    found = read_recipe(folder).get("set", [])
    if not isinstance(found, list) or not all(isinstance(assignment, str) for assignment in found):
        raise EngineError(f"{folder / RECIPE}: set: expected a list of a.b=value")
    return found


def _stored_arguments(folder: Path, function: Callable[..., Recipe]) -> dict[str, Any]:
    """The arguments that a run was started with, each of the type that the function of its recipe wants."""
    found = read_recipe(folder).get("arguments", {})
    parameters = inspect.signature(function).parameters
    if not isinstance(found, dict) or not found.keys() <= parameters.keys():
        raise EngineError(f"{folder / RECIPE}: arguments: expected values for {', '.join(parameters) or 'none'}")
    try:
        return {name: from_json(parameters[name].annotation, value, name) for name, value in found.items()}
    except ValueError as error:
        raise EngineError(f"{folder / RECIPE}: arguments: {error}") from None


def _split(function: Callable[..., Recipe], assignments: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Assignments as arguments of a recipe's function, and as fields of what it returns."""
    parameters = inspect.signature(function).parameters
    arguments: dict[str, Any] = {}
    fields = []
    for assignment in assignments:
        path, separator, text = assignment.partition("=")
        if path in parameters and separator:
            arguments[path] = parse_text(text, parameters[path].annotation, path)
        else:
            fields.append(assignment)
    return arguments, fields
