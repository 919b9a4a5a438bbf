"""Who may import whom (parts meet only in tasks and recipes), how deep a run is, and that importing stays light."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from equigrad.cli import main

PACKAGE = Path(__file__).parents[1] / "src" / "equigrad"

# What the modules of a part may import of the package, besides itself. A name stands for all below it.
BASE = {"arrays", "csv_cells", "errors", "files", "labels", "lazy", "run_files", "settings", "terminal"}
ALLOWED = {
    **{part: set() for part in BASE},
    "errors": {"terminal"},
    "arrays": {"errors"},
    "run_files": {"errors"},
    "settings": {"terminal"},
    "statistics": set(),
    "losses": {"labels", "statistics"},
    "meter": {"files", "labels", "losses", "statistics"},
    "sampling": set(),
    "calibration": {"models.scores"},
    "decoupling": {"models"},
    "distillation": {"labels", "losses", "statistics"},
    "models": {"labels", "lazy", "statistics"},
    "data": {"arrays", "csv_cells", "errors", "files", "labels", "lazy", "terminal"},
    "evaluation": {"arrays", "csv_cells", "files", "labels", "lazy", "data.frequency"},
    "engine": {"arrays", "errors", "files", "meter", "run_files", "settings", "statistics", "terminal"},
    "analysis": {"arrays", "files", "lazy", "run_files", "data.frequency"},
    "integrations": {"files", "labels", "lazy", "losses", "statistics", "models.scores"},
    "tasks": {
        *(BASE - {"lazy"}),
        *("statistics", "losses", "sampling", "calibration", "decoupling", "distillation"),
        *("models", "data", "evaluation", "engine", "analysis"),
    },
    # Settings only: a recipe names parts of tasks, and values of the engine and of models that are settings themselves.
    "recipes": {
        *("engine", "run_files", "settings", "tasks"),
        "models.backbones.resnets.TORCHVISION",
        "models.detection.pyramids.feature_pyramid.ExtraLevels",
        "models.detection.two_stage.roi_sampling.RoISampler",
    },
    "commands": {
        "recipes",
        "tasks",
        "engine",
        "analysis",
        "evaluation",
        "data",
        "sampling",
        "losses.kernel_choice",
        *BASE,
    },
    "trained": {"recipes", "run_files", "tasks"},
    "cli": {"commands", "errors"},
    "__main__": {"cli"},
}
# `import equigrad`, as `equigrad.SoftmaxEqualizationLoss`, means the losses and what they come with.
PUBLIC_FACE = {"tasks"}


def modules():
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def imported(path):
    """Dotted names below the package that a module imports, in whatever form and wherever in it; "" is the package."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("import_module", "importlib.import_module"):
            names = [ast.unparse(node.args[0]).strip("'\"f")]
        else:
            continue
        for name in names:
            if name == "equigrad" or name.startswith("equigrad."):
                yield name.removeprefix("equigrad").removeprefix(".")


def may_import(part, name):
    if not name:
        return part in PUBLIC_FACE
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in ALLOWED[part] | {part})


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_part_imports_only_what_it_may(path):
    part = path.relative_to(PACKAGE).with_suffix("").parts[0]
    # Only the catalogue of recipes and a lazy package import by a name that is made at run time.
    refused = [name for name in imported(path) if not may_import(part, name)]
    if path == PACKAGE / "recipes" / "catalogue.py":
        refused = [name for name in refused if "{" not in name]
    assert not refused


def test_the_rules_catch_every_form_of_import(tmp_path):
    module = tmp_path / "module.py"
    module.write_text(
        "import equigrad\nimport equigrad.engine.train\nfrom equigrad import losses\n"
        "def late():\n    from equigrad.tasks.results import REPORT\n"
        "import importlib\nimportlib.import_module('equigrad.recipes.tiny')\n"
    )
    assert sorted(imported(module)) == ["", "engine.train", "losses", "recipes.tiny", "tasks.results.REPORT"]
    assert not any(may_import("models", name) for name in imported(module))
    module.write_text("from . import sibling\n")
    with pytest.raises(AssertionError, match="relative import"):
        list(imported(module))


def test_every_package_has_a_rule_and_no_folder_hides_a_concept():
    parts = {path.relative_to(PACKAGE).with_suffix("").parts[0] for path in modules()}
    assert parts <= ALLOWED.keys()
    crowded = {folder.name: len(list(folder.glob("*.py"))) for folder in [PACKAGE, *PACKAGE.rglob("*/")]}
    assert {name: count for name, count in crowded.items() if count > 21} == {}


def test_importing_the_package_needs_torch_alone():
    code = (
        "import sys, equigrad\n"
        "for name in equigrad.__all__: getattr(equigrad, name)\n"
        "heavy = ['torchvision', 'lightning', 'matplotlib', 'rich', 'PIL', 'tensorboard', 'torch._dynamo']\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


_TINY = ["data.max_count=12", "data.test_count=2", "training.schedule.epochs=1", "training.batch_size=8"]
_GLYPHS = [*_TINY, "data.num_classes=4", "data.image_size=64", "training.num_workers=0"]
RUNS = {
    "tiny:softmax_eql": [*_TINY, "data.num_classes=5", "data.imbalance_factor=6"],
    "tiny:segmentation": [*_TINY, "data.num_glyphs=3", "data.imbalance_factor=6"],
    "glyph_objects:one_stage": _GLYPHS,
    "glyph_objects:mask_rcnn": _GLYPHS,
}


@pytest.mark.parametrize("recipe", RUNS)
def test_from_the_command_to_the_arithmetic_of_the_loss_are_at_most_eleven_frames(recipe, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    deepest = []

    def remember(frame, event, argument):
        nonlocal deepest
        if event != "call" or not frame.f_code.co_filename.startswith(str(PACKAGE / "losses")):
            return
        stack = []
        while frame is not None:
            if frame.f_code.co_filename.startswith(str(PACKAGE)):
                stack.append(f"{os.path.relpath(frame.f_code.co_filename, PACKAGE)}:{frame.f_code.co_name}")
            frame = frame.f_back
        is_watching = any(name.startswith("meter/") for name in stack)  # beside the walk: it reads labels as losses do
        if any(name.endswith("_train_step") for name in stack) and not is_watching:  # building the model is no walk
            deepest = max(deepest, stack[::-1], key=len)

    words = ["train", recipe, "--run", "run", *(word for setting in RUNS[recipe] for word in ("--set", setting))]
    sys.setprofile(remember)
    try:
        assert main(words) == 0
    finally:
        sys.setprofile(None)
    assert 6 <= len(deepest) <= 11, "\n".join(deepest)
