"""Settings: frozen dataclasses that can be written as JSON, read back, listed for help and changed by `a.b=value`.

A field is a number, a word (`Literal`), a text, a path, a tuple, None, or another such dataclass. Where a field admits
several dataclasses, JSON names the one that is meant under "type". Only classes in the annotation of the field
are ever built, so that a file cannot execute anything else.
"""

import dataclasses
import difflib
import inspect
import itertools
import math
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, Union

from equigrad.errors import UsageError
from equigrad.terminal import printable

Settings = TypeVar("Settings")

_TYPE = "type"
_NAMES = {
    type(None): "none",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    Path: "a path",
    str: "text",
}


class Setting(NamedTuple):
    """One field in a tree of settings."""

    path: str
    kind: str  # what it accepts, in words
    value: Any
    text: str  # what it is for


def to_json(value: Any) -> Any:
    """Settings as what `json.dumps` takes."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {_TYPE: type(value).__name__, **fields}
    if isinstance(value, tuple):
        return [to_json(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a setting must be plain data or a dataclass, got {type(value).__name__} {value!r}")


def from_json(kind: Any, content: Any, path: str = "") -> Any:
    """Settings of a type from what `to_json` gave.

    Raises:
        ValueError: one line with the path of the field, what was expected and what came.
    """
    for option in _options(kind):
        if _is_settings(option):
            if isinstance(content, dict) and content.get(_TYPE) == option.__name__:
                return _from_object(option, content, path)
        elif _fits(content, option):
            return _value(content, option, path)
    shown = content.get(_TYPE, "an object") if isinstance(content, dict) else repr(content)
    raise ValueError(f"{path or 'settings'}: expected {describe(kind)}, got {printable(str(shown)):.80}")


def override(settings: Settings, assignments: Iterable[str], *, more_names: Iterable[str] = ()) -> Settings:
    """The settings with all of `path.to.field=value` applied together; of two for the same field, the later wins.

    Together, because a dataclass may refuse one of two fields that belong together.

    Args:
        settings: to change.
        assignments: what to change.
        more_names: further names that error messages may suggest for a wrong one.

    Raises:
        ValueError: for an unknown field, with the nearest known one, or a value that does not fit, with what would.
    """
    texts: dict[str, str] = {}
    for assignment in assignments:
        path, separator, text = assignment.partition("=")
        if not separator or not path:
            raise UsageError(f"--set {assignment}: expected field=value")
        texts[path] = text
    known = itertools.chain(more_names, (setting.path for setting in list_settings(settings)))  # read on errors only
    changed: Settings = _replace(settings, texts, "", known)
    return changed


def list_settings(settings: Any, prefix: str = "") -> Iterator[Setting]:
    """Every field below the settings, in the order of declaration."""
    texts, kinds = argument_texts(type(settings)), typing.get_type_hints(type(settings))
    for field in dataclasses.fields(settings):
        value, path = getattr(settings, field.name), f"{prefix}{field.name}"
        choices = [option.__name__ for option in _options(kinds[field.name]) if _is_settings(option)]
        if _is_settings(type(value)):
            if len(choices) > 1:
                yield Setting(path, " | ".join(choices), type(value).__name__, texts.get(field.name, ""))
            yield from list_settings(value, f"{path}.")
        else:
            yield Setting(path, describe(kinds[field.name]), value, texts.get(field.name, ""))


def differences(old: Any, new: Any, prefix: str = "") -> dict[str, tuple[Any, Any]]:
    """Old and new value of every field in which two trees of settings differ, by path."""
    if type(old) is not type(new) or not _is_settings(type(old)):
        return {} if old == new else {prefix.rstrip("."): (old, new)}
    found: dict[str, tuple[Any, Any]] = {}
    for field in dataclasses.fields(old):
        found |= differences(getattr(old, field.name), getattr(new, field.name), f"{prefix}{field.name}.")
    return found


def argument_texts(owner: Any) -> dict[str, str]:
    """What the "Args:" section of a docstring says about each argument."""
    _, _, section = inspect.cleandoc(owner.__doc__ or "").partition("Args:\n")
    section = re.split(r"\n(?=\S)", section)[0]
    entries = re.split(r"^    (?=\w+:)", section, flags=re.MULTILINE)[1:]
    split = (entry.partition(":") for entry in entries)
    return {name: " ".join(text.split()) for name, _, text in split}


def parse_text(text: str, kind: Any, path: str) -> Any:
    """The value that a text on the command line means for a field of this type."""
    for option in _options(kind):
        try:
            return _parse_as(text, option)
        except (ValueError, KeyError, TypeError):
            continue
    raise UsageError(f"--set {path}={text}: expected {describe(kind)}{nearest(text, choices_of(kind))}")


def describe(kind: Any) -> str:
    """What a type accepts, in words."""
    if typing.get_origin(kind) is Literal:
        choices = list(map(str, typing.get_args(kind)))
        return f"one of {', '.join(choices)}" if len(choices) > 1 else choices[0]
    if typing.get_origin(kind) is tuple:
        return f"{describe(typing.get_args(kind)[0])}, or several separated by commas"
    options = _options(kind)
    if len(options) > 1:
        return " or ".join(describe(option) for option in options)
    return _NAMES.get(kind, getattr(kind, "__name__", str(kind)))


def choices_of(kind: Any) -> list[str]:
    """The words of a type that takes certain words."""
    literals = (option for option in _options(kind) if typing.get_origin(option) is Literal)
    return [str(choice) for literal in literals for choice in typing.get_args(literal)]


def nearest(name: str, known: Iterable[str]) -> str:
    """The known names nearest to a wrong one, as the end of a message."""
    known = list(dict.fromkeys(known))
    last, last_of = name.rpartition(".")[2], {path: path.rpartition(".")[2] for path in known}
    near = difflib.get_close_matches(last, set(last_of.values()), n=3, cutoff=0.8)
    found = (
        [path for path in known if last_of[path] == last]
        or [path for path in known if last_of[path] in near]
        or [path for path in known if last in last_of[path].split("_")]  # batch, workers
        or difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    )
    return f"; did you mean {' or '.join(found[:3])}?" if found else ""


def _replace(settings: Any, texts: Mapping[str, str], prefix: str, known: Iterable[str]) -> Any:
    """A subtree of settings with values from texts, given by path below it; `known` are all existing names."""
    if not texts:
        return settings
    if not _is_settings(type(settings)):
        path = f"{prefix}{next(iter(texts))}"
        raise UsageError(f"--set {path}: {prefix.rstrip('.')} is {settings!r}, which has no fields to set")
    kinds, values = typing.get_type_hints(type(settings)), dict[str, Any]()
    for name in dict.fromkeys(path.partition(".")[0] for path in texts):
        if name not in {field.name for field in dataclasses.fields(settings)}:
            path = next(path for path in texts if path.partition(".")[0] == name)
            raise UsageError(f"--set {prefix}{path}: {_no_field(name, settings)}{nearest(f'{prefix}{path}', known)}")
        value = getattr(settings, name)
        if name in texts:
            value = _assigned(value, texts[name], kinds[name], f"{prefix}{name}")
        below = {path.partition(".")[2]: text for path, text in texts.items() if path.startswith(f"{name}.")}
        values[name] = _replace(value, below, f"{prefix}{name}.", known)
    try:
        return dataclasses.replace(settings, **values)
    except (TypeError, ValueError) as error:  # what the dataclass itself refuses
        given = " ".join(f"--set {prefix}{path}={text}" for path, text in texts.items())
        raise UsageError(f"{given}: {error}") from error


def _no_field(name: str, settings: Any) -> str:
    fields = ", ".join(field.name for field in dataclasses.fields(settings))
    owner = f"{type(settings).__name__}, which has {fields}" if fields else type(settings).__name__
    return f"no field {name!r} in {owner}"


def _assigned(old: Any, text: str, kind: Any, path: str) -> Any:
    """The value of a field from a text. The name of another dataclass selects it; common fields keep their values."""
    for option in _options(kind):
        if _is_settings(option) and text == option.__name__:
            known = {
                field.name: getattr(old, field.name) for field in dataclasses.fields(option) if hasattr(old, field.name)
            }
            try:
                return option(**known)
            except TypeError as error:
                raise UsageError(f"--set {path}={text}: {error}") from error
    return parse_text(text, kind, path)


def _from_object(kind: Any, content: Mapping[str, Any], path: str) -> Any:
    kinds, prefix = typing.get_type_hints(kind), f"{path}." if path else ""
    fields = {field.name: field for field in dataclasses.fields(kind)}
    if unknown := sorted(content.keys() - {_TYPE, *fields}):
        raise ValueError(f"{prefix}{unknown[0]}: {kind.__name__} has no such field")
    # A file of an earlier version lacks newer fields; their defaults are the behaviour of that version.
    if missing := [name for name, field in fields.items() if name not in content and not _has_default(field)]:
        raise ValueError(f"{prefix}{missing[0]}: missing")
    values = {name: from_json(kinds[name], content[name], f"{prefix}{name}") for name in fields if name in content}
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path or 'settings'}: {error}") from error


def _has_default(field: "dataclasses.Field[Any]") -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def _options(kind: Any) -> list[Any]:
    """The members of a union, None first and str last, so that "none" and "1" become texts only as a last resort."""
    is_union = typing.get_origin(kind) in (Union, types.UnionType)
    members = list(typing.get_args(kind)) if is_union else [kind]
    return sorted(members, key=lambda member: (member is not type(None), member is str))


def _is_settings(kind: Any) -> bool:
    return isinstance(kind, type) and dataclasses.is_dataclass(kind)


def _fits(content: Any, kind: Any) -> bool:
    """Whether a JSON value is one of a type that is not a dataclass."""
    if typing.get_origin(kind) is Literal:
        return any(content == choice and type(content) is type(choice) for choice in typing.get_args(kind))
    if typing.get_origin(kind) is tuple:
        return isinstance(content, list)
    if kind is float:
        return isinstance(content, int | float) and not isinstance(content, bool) and _is_finite(content)
    if kind is Path:
        return isinstance(content, str)
    return kind in (type(None), bool, int, str) and type(content) is kind


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number that is too large for a float
        return False


def _value(content: Any, kind: Any, path: str) -> Any:
    if typing.get_origin(kind) is tuple:
        return tuple(
            from_json(item_kind, item, path) for item, item_kind in _paired(content, typing.get_args(kind), path)
        )
    return kind(content) if kind in (float, Path) else content


def _paired(items: list[Any], kinds: tuple[Any, ...], path: str) -> list[tuple[Any, Any]]:
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return [(item, kinds[0]) for item in items]
    if len(items) != len(kinds):
        raise ValueError(f"{path}: expected {len(kinds)} values, got {len(items)}")
    return list(zip(items, kinds, strict=True))


def _parse_as(text: str, kind: Any) -> Any:
    if kind is type(None):
        return {"none": None, "null": None}[text.lower()]
    if kind is bool:
        return {"true": True, "false": False}[text.lower()]
    if kind is float:
        number = float(text)
        if not math.isfinite(number):
            raise ValueError(f"{text} is not a number to compute with")
        return number
    if kind in (int, str, Path):
        return kind(text)
    if typing.get_origin(kind) is Literal:
        return {str(choice): choice for choice in typing.get_args(kind)}[text]
    if typing.get_origin(kind) is tuple:
        items = [item.strip() for item in text.split(",")] if text else []
        return tuple(_parse_as(item, item_kind) for item, item_kind in _paired(items, typing.get_args(kind), text))
    raise ValueError(f"{kind} cannot be given as text")
