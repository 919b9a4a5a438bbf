"""Names that a package exports without importing their modules before they are used (PEP 562).

`import equigrad` needs torch alone. A package that also exports what needs the `train` extra therefore only lists its
exports, and imports a module when one of its names is first read:

    if TYPE_CHECKING:  # what editors and type checkers see
        from equigrad.models.classification.classifier import build_classifier as build_classifier
    else:
        __getattr__, __dir__, __all__ = lazy_exports(__name__, {"classification.classifier": ["build_classifier"]})
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazy_exports(
    package: str, modules: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package that exports the given names of its modules.

    Args:
        package: the package's `__name__`.
        modules: the exported names of each module; modules are named relative to the package, and the names below ""
            are modules themselves.
    """
    module_of = {name: module for module, names in modules.items() for name in names}
    # Importing a submodule writes it into the package under its own name, so it would hide an export of that name.
    taken = {module.split(".")[0] for module in modules} - set(modules.get("", ()))
    if hidden := module_of.keys() & taken:
        raise ValueError(f"{package} exports {sorted(hidden)}, but its submodules have the same names")

    def read(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not module_of[name]:
            return import_module(f"{package}.{name}")
        value = getattr(import_module(f"{package}.{module_of[name]}"), name)
        setattr(sys.modules[package], name, value)  # the next read does not come here
        return value

    def names() -> list[str]:
        return sorted(vars(sys.modules[package]).keys() | module_of.keys())

    return read, names, sorted(module_of)
