"""Who may import whom (style: parts meet only in recipes), and that importing the package stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "equigrad"

# What the modules of a part may import of the package; every part may import itself, `files`, `run_files` and `labels`.
ALLOWED = {
    "files": set(),
    "labels": set(),
    "run_files": set(),
    "statistics": set(),
    "losses": {"statistics"},
    "sampling": set(),
    "calibration": set(),
    "models": {"statistics"},
    "data": set(),
    "engine": {"statistics"},
    "decoupling": {"models"},
    "distillation": {"losses"},
    "evaluation": {"data.frequency"},
    "analysis": {"data.frequency"},
    "integrations": {"losses", "statistics"},
    "commands": {"recipes", "engine", "analysis", "evaluation", "data", "sampling"},
    "cli": {"commands", "recipes", "engine", "analysis"},
    "__main__": {"cli"},
}


def modules():
    return sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.name != "__init__.py")


def imported(path):
    """Dotted names below the package that a module imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from (name.removeprefix("equigrad.") for name in names if name.startswith("equigrad."))


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_part_imports_only_what_it_may(path):
    part = path.relative_to(PACKAGE).with_suffix("").parts[0]
    if part == "recipes":
        return
    allowed = ALLOWED[part] | {part, "files", "labels", "run_files"}
    for name in imported(path):
        assert any(name == prefix or name.startswith(f"{prefix}.") for prefix in allowed), f"{path.name} imports {name}"


def test_importing_the_package_needs_torch_alone():
    code = (
        "import sys, equigrad\n"
        "heavy = ['torchvision', 'lightning', 'matplotlib', 'plotly', 'rich', 'PIL', 'tensorboard', 'torch._dynamo']\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_every_public_name_exists():
    import equigrad

    for name in equigrad.__all__:
        assert hasattr(equigrad, name)
