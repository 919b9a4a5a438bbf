"""What `equigrad.data` and `equigrad.evaluation` export, and that a bare import of them stays cheap."""

import importlib
import subprocess
import sys

import pytest

PACKAGES = [
    "equigrad.data",
    "equigrad.data.detection",
    "equigrad.data.glyphs",
    "equigrad.data.images",
    "equigrad.data.segmentation",
    "equigrad.evaluation",
    "equigrad.evaluation.detection",
]


@pytest.mark.parametrize("name", PACKAGES)
def test_every_exported_name_is_there_and_comes_from_inside_the_package(name):
    package = importlib.import_module(name)
    assert package.__all__ == sorted(package.__all__)
    for exported in package.__all__:
        assert getattr(package, exported).__module__.startswith(f"{name}.")
        assert exported in dir(package)


def test_the_packages_import_none_of_their_modules_before_a_name_is_read():
    code = (
        f"import sys, importlib\n[importlib.import_module(name) for name in {PACKAGES}]\n"
        "heavy = ['torchvision', 'pycocotools', 'PIL', 'msgspec', 'matplotlib', 'yaml']\n"
        "print([name for name in heavy if name in sys.modules])\n"
        "import equigrad.data.glyphs.files\n"
        "print('matplotlib' in sys.modules)"  # it has the fonts, and takes a second to import
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["[]", "False"]


def test_a_name_that_is_not_exported_is_refused():
    with pytest.raises(AttributeError, match=r"module 'equigrad\.data' has no attribute 'read_everything'"):
        importlib.import_module("equigrad.data").read_everything  # noqa: B018
