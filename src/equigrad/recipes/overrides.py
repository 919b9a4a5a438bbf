"""`--set train.schedule.epochs=1`: change fields of the frozen dataclasses a recipe is made of."""

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, Union

Settings = TypeVar("Settings")


def override(settings: Settings, assignments: Iterable[str]) -> Settings:
    """The settings with all of `path.to.field=value` applied at once; of two for the same field, the later wins.

    At once, because a dataclass may refuse one of two fields that belong together.

    Raises:
        ValueError: for an unknown field or a value that is not of the field's type; says what would be.
    """
    texts: dict[str, str] = {}
    for assignment in assignments:
        path, separator, text = assignment.partition("=")
        if not separator or not path:
            raise ValueError(f"--set {assignment}: expected field=value")
        texts[path] = text
    changed: Settings = _replace(settings, "", texts)
    return changed


def _replace(settings: Any, place: str, texts: Mapping[str, str]) -> Any:
    """The settings at a place of the recipe, with texts by path from there on."""
    if not texts:
        return settings
    if not dataclasses.is_dataclass(settings) or isinstance(settings, type):
        path = f"{place}{next(iter(texts))}"
        raise ValueError(f"--set {path}: {place.rstrip('.')} is {settings!r}, which has no fields to set")
    fields = [field.name for field in dataclasses.fields(settings)]
    values: dict[str, Any] = {}
    for path, text in texts.items():
        name, _, rest = path.partition(".")
        if name not in fields:
            known = f"{type(settings).__name__}, which has {', '.join(fields)}"
            raise ValueError(f"--set {place}{path}: no field {name!r} in {known}")
        if not rest:
            values[name] = parse_text(text, typing.get_type_hints(type(settings))[name], f"{place}{name}")
    for name in dict.fromkeys(path.partition(".")[0] for path in texts):
        below = {path.partition(".")[2]: text for path, text in texts.items() if path.startswith(f"{name}.")}
        values[name] = _replace(values.get(name, getattr(settings, name)), f"{place}{name}.", below)
    try:
        return dataclasses.replace(settings, **values)
    except (TypeError, ValueError) as error:  # what the dataclass itself refuses
        given = " ".join(f"--set {place}{path}={text}" for path, text in texts.items())
        raise ValueError(f"{given}: {error}") from error


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
