"""Names of settings, read from the source of their classes: a wrong one is refused before torch is imported.

What a field accepts is in its annotation, and every class that it may hold stands there too, so that the source is
enough. Only the recipe itself knows which of several classes it has; what this check lets pass is checked again there.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple, Union

from equigrad.errors import UsageError
from equigrad.recipes.names import MODULES
from equigrad.settings import nearest, parse_text

_PLAIN: dict[str, Any] = {"int": int, "float": float, "str": str, "bool": bool, "Path": Path}
_MAX_DEPTH = 8  # of fields below fields; a loss may hold a loss


class _Meaning(NamedTuple):
    """What an annotation admits."""

    kind: Any = None  # a type that `parse_text` knows; None if it is not plain data
    classes: "tuple[_Class, ...]" = ()


@dataclass(frozen=True, eq=False)
class _Class:
    """A dataclass of settings."""

    name: str
    fields: dict[str, tuple[str, ast.expr]]  # annotation of each field, and the module that it stands in

    def field(self, name: str) -> _Meaning:
        """What the field accepts."""
        module, annotation = self.fields[name]
        return _meaning(module, annotation)


def recipe_parameters(recipe: str) -> list[str]:
    """The arguments of the function of a recipe of the package."""
    _, function = _function(recipe)
    return [argument.arg for argument in function.args.args]


def check_settings(recipe: str, assignments: Sequence[str]) -> None:
    """ValueError with one line for an assignment that a recipe of the package cannot have: no such field, or no value.

    Args:
        recipe: its name; the settings of the user's own recipes are not known here.
        assignments: `a.b=value`, as given by `--set`.
    """
    if recipe.partition(":")[0] not in MODULES:
        return
    module, function = _function(recipe)
    parameters = {argument.arg: argument.annotation for argument in function.args.args}
    for assignment in assignments:
        path, separator, text = assignment.partition("=")
        if not separator or not path:
            raise UsageError(f"--set {assignment}: expected field=value")
        annotation = parameters.get(path)
        meaning = _followed(path, recipe) if annotation is None else _meaning(module, annotation)
        names = [owner.name for owner in meaning.classes]
        if names and text not in (*names, "none"):
            raise UsageError(f"--set {path}={text}: expected {' or '.join(names)}{nearest(text, names)}")
        if meaning.kind is not None and not names:
            parse_text(text, meaning.kind, path)


def setting_paths(recipe: str) -> Iterator[str]:
    """Every field that the settings of a recipe of the package may have, with all classes that a field may hold."""
    return _paths_below(_classes_of(recipe))


def _function(recipe: str) -> tuple[str, ast.FunctionDef]:
    module_name, _, function_name = recipe.partition(":")
    module = f"equigrad.recipes.{module_name}"
    return module, _names_in(module)[function_name]


def _classes_of(recipe: str) -> "tuple[_Class, ...]":
    module, function = _function(recipe)
    return _meaning(module, function.returns).classes


def _paths_below(classes: Sequence[_Class], prefix: str = "") -> Iterator[str]:
    if prefix.count(".") > _MAX_DEPTH:
        return
    for owner in classes:
        for name in owner.fields:
            yield f"{prefix}{name}"
            yield from _paths_below(owner.field(name).classes, f"{prefix}{name}.")


def _followed(path: str, recipe: str) -> _Meaning:
    """What the field at a path accepts, over all classes that may be on the way."""
    owners, found, start = _classes_of(recipe), list[_Meaning](), ""
    for name in path.split("."):
        found = [owner.field(name) for owner in owners if name in owner.fields]
        if not found:
            known = [*recipe_parameters(recipe), *setting_paths(recipe)]
            hint = nearest(path, known) or f"; equigrad train {recipe} --help lists all settings"
            raise UsageError(f"--set {path}: no field {name!r} in {_owner(owners, start)}{hint}")
        owners, start = tuple(each for meaning in found for each in meaning.classes), f"{start}{name}."
    kinds = {meaning.kind for meaning in found}
    return _Meaning(kinds.pop() if len(kinds) == 1 else None, tuple(dict.fromkeys(owners)))


def _owner(owners: Sequence[_Class], start: str) -> str:
    """What has no such field, and which it has; of several classes only the recipe knows the one that it takes."""
    fields = ", ".join(dict.fromkeys(name for owner in owners for name in owner.fields))
    if len(owners) == 1:
        return f"{owners[0].name}, which has {fields}"
    return f"{start.rstrip('.')}, which {f'may have {fields}' if fields else 'has no fields to set'}"


def _meaning(module: str, annotation: ast.expr | None) -> _Meaning:
    """What an annotation admits, in the words of a module."""
    if isinstance(annotation, ast.BinOp):
        left, right = _meaning(module, annotation.left), _meaning(module, annotation.right)
        is_plain = left.kind is not None and right.kind is not None
        return _Meaning(Union[left.kind, right.kind] if is_plain else None, left.classes + right.classes)  # noqa: UP007
    if isinstance(annotation, ast.Constant):
        if isinstance(annotation.value, str):
            return _meaning(module, ast.parse(annotation.value, mode="eval").body)
        return _Meaning(type(None) if annotation.value is None else None)
    if isinstance(annotation, ast.Subscript):
        return _Meaning(_subscripted(module, annotation))
    if isinstance(annotation, ast.Name):
        return _named(module, annotation.id)
    if isinstance(annotation, ast.Attribute) and isinstance(annotation.value, ast.Name):
        parent = _names_in(module).get(annotation.value.id)  # `from package import module`
        return _named(".".join(parent), annotation.attr) if isinstance(parent, tuple) else _Meaning()
    return _Meaning()


def _subscripted(module: str, annotation: ast.Subscript) -> Any:
    """Literal["a", "b"] and tuple[int, ...]."""
    items = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
    outer = annotation.value.id if isinstance(annotation.value, ast.Name) else ""
    if outer == "Literal":
        return Literal.__getitem__(tuple(ast.literal_eval(item) for item in items))
    kinds = [
        ... if isinstance(item, ast.Constant) and item.value is ... else _meaning(module, item).kind for item in items
    ]
    return tuple.__class_getitem__(tuple(kinds)) if outer == "tuple" and None not in kinds else None


def _named(module: str, name: str) -> _Meaning:
    """What a name means in a module: a class, another name of something, or what it imports."""
    found = _names_in(module).get(name)
    if isinstance(found, ast.ClassDef):
        return _Meaning(classes=(_class(module, name),))
    if isinstance(found, ast.expr):
        return _meaning(module, found)
    if isinstance(found, tuple) and found[0].startswith("equigrad"):
        return _named(*found)
    return _Meaning(_PLAIN.get(name))


@cache
def _class(module: str, name: str) -> _Class:
    """The fields of a dataclass, first those of its bases."""
    definition = _names_in(module)[name]
    assert isinstance(definition, ast.ClassDef)
    fields: dict[str, tuple[str, ast.expr]] = {}
    for base in definition.bases:
        for owner in _meaning(module, base).classes:
            fields |= owner.fields
    for statement in definition.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            fields[statement.target.id] = (module, statement.annotation)
    return _Class(name, fields)


@cache
def _names_in(module: str) -> dict[str, Any]:
    """Classes, functions and assigned expressions of a module, and (module, name) of what it imports."""
    found: dict[str, Any] = {}
    for statement in ast.parse(_source(module)).body:
        if isinstance(statement, ast.ClassDef | ast.FunctionDef):
            found[statement.name] = statement
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            found[statement.targets[0].id] = statement.value
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            found |= {alias.asname or alias.name: (statement.module, alias.name) for alias in statement.names}
    return found


def _source(module: str) -> str:
    *packages, name = module.split(".")[1:]
    parent = files("equigrad").joinpath(*packages)
    file = parent.joinpath(f"{name}.py")
    return (file if file.is_file() else parent.joinpath(name, "__init__.py")).read_text(encoding="utf-8")
