"""`--set train.schedule.epochs=1`: change fields of the frozen dataclasses a recipe is made of."""

import dataclasses
import types
import typing
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypeVar, Union

Settings = TypeVar("Settings")


def override(settings: Settings, assignments: Iterable[str]) -> Settings:
    """The settings with `path.to.field=value` applied, one after the other.

    Raises:
        ValueError: for an unknown field or a value that is not of the field's type; says what would be.
    """
    for assignment in assignments:
        path, separator, text = assignment.partition("=")
        if not separator or not path:
            raise ValueError(f"--set {assignment}: expected field=value")
        settings = _replace(settings, path.split("."), text, path)
    return settings


def _replace(settings: Any, names: list[str], text: str, path: str) -> Any:
    name, *rest = names
    if not dataclasses.is_dataclass(settings) or isinstance(settings, type):
        parent = path.rsplit(".", len(names))[0]
        raise ValueError(f"--set {path}: {parent} is {settings!r}, which has no fields to set")
    fields = [field.name for field in dataclasses.fields(settings)]
    if name not in fields:
        raise ValueError(f"--set {path}: no field {name!r} in {type(settings).__name__}, which has {', '.join(fields)}")
    if rest:
        value = _replace(getattr(settings, name), rest, text, path)
    else:
        value = parse_text(text, typing.get_type_hints(type(settings))[name], path)
    try:
        return dataclasses.replace(settings, **{name: value})
    except (TypeError, ValueError) as error:  # what the dataclass itself refuses
        raise ValueError(f"--set {path}={text}: {error}") from error


def parse_text(text: str, kind: Any, path: str) -> Any:
    """The value that a text means for a field of this type."""
    for option in _options(kind):
        try:
            return _parse_as(text, option)
        except (ValueError, KeyError):
            continue
    raise ValueError(f"--set {path}={text}: expected {_describe(kind)}")


def _options(kind: Any) -> list[Any]:
    """The members of a union, None first and str last: "none" is not a name and "1" is not a text if it may be less."""
    is_union = typing.get_origin(kind) in (Union, types.UnionType)
    members = list(typing.get_args(kind)) if is_union else [kind]
    return sorted(members, key=lambda member: (member is not type(None), member is str))


def _parse_as(text: str, kind: Any) -> Any:
    if kind is type(None):
        return {"none": None, "null": None}[text.lower()]
    if kind is bool:
        return {"true": True, "false": False}[text.lower()]
    if kind in (int, float, str, Path):
        return kind(text)
    if typing.get_origin(kind) is Literal:
        return {str(choice): choice for choice in typing.get_args(kind)}[text]
    if typing.get_origin(kind) is tuple:
        return _parse_tuple(text, typing.get_args(kind))
    raise ValueError(f"{kind} cannot be given as text")


def _parse_tuple(text: str, kinds: tuple[Any, ...]) -> tuple[Any, ...]:
    items = [item.strip() for item in text.split(",")] if text else []
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(_parse_as(item, kinds[0]) for item in items)
    return tuple(_parse_as(item, kind) for item, kind in zip(items, kinds, strict=True))


def _describe(kind: Any) -> str:
    if typing.get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, typing.get_args(kind)))
    if typing.get_origin(kind) is tuple:
        return "values with commas between them"
    options = _options(kind)
    if len(options) > 1:
        return " or ".join(_describe(option) for option in options)
    names = {type(None): "none", bool: "true or false", int: "a whole number", float: "a number", Path: "a path"}
    return names.get(kind, getattr(kind, "__name__", str(kind)))
