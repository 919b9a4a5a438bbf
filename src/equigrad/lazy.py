"""Names that a package exports without importing their modules before they are used (PEP 562).

`import equigrad` needs torch alone. A package that also exports what needs the `train` extra therefore writes its
imports where only editors and type checkers follow them. They are read from there, and each is made when its name is
first used:

    if TYPE_CHECKING:
        from equigrad.models.classification.classifier import build_classifier as build_classifier
    else:
        __getattr__, __dir__, __all__ = lazy_exports(__name__)
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from importlib import import_module


def lazy_exports(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package that writes `from ... import name as name`.

    Args:
        package: the package's `__name__`.
    """
    module_of = {
        alias.asname: str(node.module)
        for node in ast.walk(ast.parse(inspect.getsource(sys.modules[package])))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    # Importing a submodule writes it into the package under its own name, so it would hide an export of that name.
    submodules = {module.removeprefix(f"{package}.").partition(".")[0] for module in module_of.values()}
    if hidden := [name for name in sorted(submodules & module_of.keys()) if module_of[name] != package]:
        raise ValueError(f"{package} exports {hidden}, but its submodules have the same names")

    def read(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if module_of[name] == package:
            return import_module(f"{package}.{name}")
        value = getattr(import_module(module_of[name]), name)
        setattr(sys.modules[package], name, value)  # the next read does not come here
        return value

    def names() -> list[str]:
        return sorted(vars(sys.modules[package]).keys() | module_of.keys())

    return read, names, sorted(module_of)
