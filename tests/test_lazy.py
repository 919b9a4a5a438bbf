import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import equigrad

SOURCE = Path(equigrad.__file__).parent
LAZY_PACKAGES = [path for path in sorted(SOURCE.rglob("__init__.py")) if "lazy_exports(" in path.read_text()]


def lazy_package(*imports):
    """Source of a package with these imports."""
    lines = ("from typing import TYPE_CHECKING", "from equigrad.lazy import lazy_exports", "if TYPE_CHECKING:")
    return "\n".join(
        (
            *lines,
            *(f"    {line}" for line in imports),
            "else:",
            "    __getattr__, __dir__, __all__ = lazy_exports(__name__)",
        )
    )


@pytest.fixture
def shapes(tmp_path, monkeypatch):
    """The folder of a package `shapes` that exports `AREA` of a module, `NAME` of a deeper one, and a module itself."""
    root = tmp_path / "shapes"
    (root / "deep").mkdir(parents=True)
    (root / "__init__.py").write_text(
        lazy_package(
            "from shapes import circles as circles",
            "from shapes.deep.names import NAME as NAME",
            "from shapes.squares import AREA as AREA, SIDE",
        )
    )
    (root / "circles.py").write_text("RADIUS = 1\n")
    (root / "squares.py").write_text("SIDE = 2\nAREA = [SIDE**2]\n")
    (root / "deep" / "__init__.py").write_text("")
    (root / "deep" / "names.py").write_text("NAME = 'square'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield root
    for name in [name for name in sys.modules if name.split(".")[0] == "shapes"]:
        del sys.modules[name]


@pytest.fixture
def package(shapes):
    return importlib.import_module("shapes")


def test_a_module_is_imported_when_one_of_its_names_is_read(package):
    assert "shapes.squares" not in sys.modules
    assert package.AREA == [4]
    assert "shapes.squares" in sys.modules
    assert "shapes.deep.names" not in sys.modules


def test_a_name_is_looked_up_once(package):
    area = package.AREA
    sys.modules["shapes.squares"].AREA = "changed later"
    assert package.AREA is area


def test_the_names_are_listed_before_they_are_imported(package):
    assert package.__all__ == ["AREA", "NAME", "circles"]
    assert {"AREA", "NAME", "__name__"} <= set(dir(package))
    assert "shapes.squares" not in sys.modules


def test_a_module_itself_can_be_exported(package):
    assert "shapes.circles" not in sys.modules
    assert package.circles.RADIUS == 1


@pytest.mark.parametrize("name", ["CIRCLE", "SIDE"])
def test_a_name_that_is_not_exported_is_an_attribute_error(package, name):
    with pytest.raises(AttributeError, match=f"module 'shapes' has no attribute '{name}'"):
        getattr(package, name)


def test_a_name_that_a_submodule_would_hide_is_refused(shapes):
    (shapes / "__init__.py").write_text(lazy_package("from shapes.squares import squares as squares"))
    with pytest.raises(ValueError, match=r"shapes exports \['squares'\]"):
        importlib.import_module("shapes")


@pytest.mark.parametrize("path", LAZY_PACKAGES, ids=lambda path: str(path.parent.relative_to(SOURCE)))
def test_type_checkers_see_the_names_that_are_exported(path):
    package = importlib.import_module(".".join(("equigrad", *path.parent.relative_to(SOURCE).parts)))
    (block,) = (node for node in ast.parse(path.read_text()).body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    shown = {alias.asname: node.module for node in imports for alias in node.names}
    assert sorted(shown) == package.__all__
    for name, module in shown.items():
        if package is not equigrad.integrations or module != package.__name__:  # a module that imports its host
            assert getattr(package, name) is getattr(importlib.import_module(module), name)


def test_a_host_library_is_imported_when_its_integration_is_first_used():
    code = (
        "import sys, equigrad\n"
        "assert 'torchvision' in dir(equigrad.integrations) and 'torchvision' not in sys.modules\n"
        "print(equigrad.integrations.torchvision.equalize.__name__, 'torchvision' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "equalize True"
