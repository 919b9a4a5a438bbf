"""Names of recipes and tables, without importing their modules: a wrong one is refused before torch is imported."""

import ast
import difflib
import importlib.util
import os
import sys
from functools import cache
from importlib.resources import files

from equigrad.errors import UsageError
from equigrad.recipes.tables import TABLES
from equigrad.settings import nearest

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
    "balanced",
)

TABLE_NAMES = tuple(dict.fromkeys(name.partition(" (")[0] for name in TABLES))
"""The tables of the paper, by their labels in it."""

_MAX_LISTED = 8
_SEE = "see `equigrad recipes`"


def recipe_names() -> list[str]:
    """Every recipe of the package: the public functions of its modules."""
    return [f"{module}:{function}" for module in MODULES for function in _functions(module)]


def check_recipe_name(name: str) -> None:
    """ValueError with one line, and the nearest name, for a recipe that does not exist."""
    module, separator, function = name.partition(":")
    if module in MODULES and function not in (known := _functions(module)):
        near = [f"{module}:{other}" for other in difflib.get_close_matches(function, known)]
        listed = ", ".join(f"{module}:{other}" for other in known[:_MAX_LISTED])
        hint = f"did you mean {' or '.join(near)}?" if near else f"{module} has {listed}"
        raise UsageError(f"recipe {name!r}: no such recipe; {hint}; {_SEE}")
    if not separator:
        raise UsageError(f"recipe {name!r}: expected module:function, such as tiny:softmax_eql; see `equigrad recipes`")
    if module not in MODULES and not _is_importable(module):
        hint = nearest(name, recipe_names())
        raise UsageError(f"recipe {name!r}: no module {module!r}, in the current folder or installed{hint}; {_SEE}")


def check_table_name(name: str) -> None:
    """ValueError with one line, and the nearest name, for a table that the paper does not have."""
    if name not in TABLE_NAMES:
        hint = nearest(name, TABLE_NAMES) or f"; the paper has {', '.join(TABLE_NAMES)}"
        raise UsageError(f"table {name!r}: no such table{hint}")


@cache
def _functions(module: str) -> list[str]:
    text = files("equigrad.recipes").joinpath(f"{module}.py").read_text(encoding="utf-8")
    found = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    return [name for name in found if not name.startswith("_")]


def _is_importable(module: str) -> bool:
    """Whether there is such a module, which may lie in the current folder; whoever names it there trusts it."""
    current = os.getcwd()
    if current not in sys.path:
        sys.path.append(current)  # last, so that nothing in it is taken for an installed package
    try:
        return importlib.util.find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):  # ValueError: a name such as "" or "a..b"
        return False
