import ast
import importlib
import sys
from pathlib import Path

import pytest

import equigrad
from equigrad.lazy import lazy_exports

SOURCE = Path(equigrad.__file__).parent
LAZY_PACKAGES = [path for path in sorted(SOURCE.rglob("__init__.py")) if "lazy_exports(" in path.read_text()]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package `shapes` that exports `AREA` of its module `squares` and `NAME` of its module `deep.names`."""
    root = tmp_path / "shapes"
    (root / "deep").mkdir(parents=True)
    (root / "__init__.py").write_text(
        "from equigrad.lazy import lazy_exports\n"
        "__getattr__, __dir__, __all__ = lazy_exports(__name__, {'squares': ['AREA'], 'deep.names': ['NAME']})\n"
    )
    (root / "squares.py").write_text("AREA = [4]\n")
    (root / "deep" / "__init__.py").write_text("")
    (root / "deep" / "names.py").write_text("NAME = 'square'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("shapes")
    for name in [name for name in sys.modules if name.split(".")[0] == "shapes"]:
        del sys.modules[name]


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
    assert package.__all__ == ["AREA", "NAME"]
    assert {"AREA", "NAME", "__name__"} <= set(dir(package))
    assert "shapes.squares" not in sys.modules


def test_an_unknown_name_is_an_attribute_error(package):
    with pytest.raises(AttributeError, match="module 'shapes' has no attribute 'CIRCLE'"):
        package.CIRCLE  # noqa: B018


def test_modules_themselves_are_exported_below_the_empty_name():
    read, names, exported = lazy_exports("equigrad", {"": ["labels"]})
    assert read("labels").IGNORE == -100
    assert exported == ["labels"]
    assert "labels" in names()


def test_a_name_that_a_submodule_would_hide_is_refused():
    with pytest.raises(ValueError, match=r"shapes exports \['squares'\]"):
        lazy_exports("shapes", {"squares": ["squares"]})


@pytest.mark.parametrize("path", LAZY_PACKAGES, ids=lambda path: str(path.parent.relative_to(SOURCE)))
def test_type_checkers_see_the_names_that_are_exported(path):
    blocks = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.If)]
    (block,) = (node for node in blocks if "lazy_exports" in ast.dump(node))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    shown = {alias.asname: node.module for node in imports for alias in node.names}

    (call,) = (node for node in ast.walk(block) if isinstance(node, ast.Call))
    modules = ast.literal_eval(call.args[1])
    package = importlib.import_module(".".join(("equigrad", *path.parent.relative_to(SOURCE).parts)))
    exported = {name: f"{package.__name__}.{module}".rstrip(".") for module, names in modules.items() for name in names}

    assert shown == exported
    assert exported.keys() <= set(package.__all__)
    for name, module in exported.items():
        assert getattr(package, name) is getattr(importlib.import_module(module), name)
