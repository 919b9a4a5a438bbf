"""Who may import whom (parts meet in tasks and recipes), how deep a run is, light imports, tests that mirror src."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from equigrad.cli import main
from equigrad.losses.compiled import rows

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "equigrad"

# What the modules of a part may import of the package, besides itself. A name stands for all below it.
BASE = {"arrays", "csv_cells", "errors", "files", "labels", "lazy", "record_ids", "run_files", "settings", "terminal"}
ALLOWED = {
    **{part: set() for part in BASE},
    "errors": {"terminal"},
    "arrays": {"errors"},
    "run_files": {"errors"},
    "settings": {"errors", "terminal"},
    "statistics": set(),
    "losses": {"labels", "statistics"},
    "meter": {"files", "labels", "losses", "statistics"},
    "sampling": set(),
    "calibration": {"models.scores"},
    "decoupling": {"models"},
    "distillation": {"labels", "losses"},
    "models": {"labels", "lazy", "statistics"},
    "data": {"arrays", "csv_cells", "errors", "files", "labels", "lazy", "record_ids", "terminal"},
    "evaluation": {"arrays", "csv_cells", "files", "labels", "lazy", "record_ids", "data.frequency"},
    "engine": {"arrays", "errors", "files", "meter", "run_files", "settings", "statistics", "terminal"},
    "analysis": {"arrays", "files", "run_files", "data.frequency"},
    "integrations": {"files", "labels", "lazy", "losses", "statistics", "models.scores"},
    "tasks": {
        *(BASE - {"csv_cells", "lazy", "record_ids"}),
        *("losses", "sampling", "calibration", "decoupling"),
        *("models", "data", "evaluation", "engine", "analysis"),
    },
    # Settings only: a recipe names parts of tasks, and values of the engine and of models that are settings themselves.
    "recipes": {
        *("engine", "errors", "run_files", "settings", "tasks"),
        "models.backbones.resnets.TORCHVISION",
        "models.detection.pyramids.feature_pyramid.ExtraLevels",
        "models.detection.two_stage.roi_sampling.RoISampler",
    },
    "commands": {
        *("recipes", "tasks", "engine", "analysis", "evaluation", "data", "sampling"),
        *("losses.compiled.rows", "losses.kernel_choice"),
        *(BASE - {"arrays", "labels", "lazy", "record_ids"}),
    },
    "trained": {"recipes", "run_files", "tasks"},
    "cli": {"commands", "errors"},
    "__main__": {"cli"},
}
# `import equigrad`, as `equigrad.SoftmaxEqualizationLoss`, means the losses and what they come with.
PUBLIC_FACE = {"tasks"}

# The library needs torch alone. What else a part imports is imported inside a function.
TORCH_ALONE = {
    *("labels", "lazy", "statistics", "losses", "meter", "sampling"),
    *("calibration", "decoupling", "distillation"),
}
OPTIONAL = {("losses", "triton"), ("meter", "matplotlib")}

DYNAMIC_IMPORTS = ("__import__", "import_module", "importlib.import_module")


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
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in DYNAMIC_IMPORTS:
            names = [ast.unparse([*node.args, *(word.value for word in node.keywords)][0]).strip("'\"f")]
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


def test_every_permission_is_used():
    used = {part: set() for part in ALLOWED}
    for path in modules():
        used[path.relative_to(PACKAGE).with_suffix("").parts[0]].update(imported(path))
    for part, prefixes in ALLOWED.items():
        unused = [prefix for prefix in prefixes if not any(f"{name}.".startswith(f"{prefix}.") for name in used[part])]
        assert not unused, f"{part} imports none of {unused}"


def test_the_library_imports_torch_alone():
    for path in modules():
        part = path.relative_to(PACKAGE).with_suffix("").parts[0]
        if part not in TORCH_ALONE:
            continue
        tree = ast.parse(path.read_text())
        names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        roots = {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"equigrad", "torch"}
        assert not {root for root in roots if (part, root) not in OPTIONAL}, path


def test_the_rules_catch_every_form_of_import(tmp_path):
    module = tmp_path / "module.py"
    module.write_text(
        "import equigrad\nimport equigrad.engine.train\nfrom equigrad import losses\n"
        "def late():\n    from equigrad.tasks.results import REPORT\n"
        "import importlib\nimportlib.import_module('equigrad.recipes.tiny')\n"
        "importlib.import_module(name='equigrad.cli')\n__import__('equigrad.data.frequency')\n"
    )
    assert sorted(imported(module)) == [
        *("", "cli", "data.frequency", "engine.train", "losses", "recipes.tiny", "tasks.results.REPORT")
    ]
    assert not any(may_import("models", name) for name in imported(module))
    module.write_text("from . import sibling\n")
    with pytest.raises(AssertionError, match="relative import"):
        list(imported(module))


def test_every_package_has_a_rule_and_no_folder_hides_a_concept():
    parts = {path.relative_to(PACKAGE).with_suffix("").parts[0] for path in modules()}
    assert parts == ALLOWED.keys()
    crowded = {folder.name: len(list(folder.glob("*.py"))) for folder in [PACKAGE, *PACKAGE.rglob("*/")]}
    assert {name: count for name, count in crowded.items() if count > 21} == {}


# Modules without a test of their own name: settings, protocols and parts of a whole, and the test that runs them.
TESTED_ELSEWHERE = {
    "analysis/paper_table_page.py": "commands/test_table.py",
    "data/detection/formats/coco_index.py": "data/detection/test_index.py",
    "data/detection/index_columns.py": "data/detection/test_index.py",
    "losses/device_pass.py": "losses/kernels/test_losses.py",
    "losses/kernels/arithmetic.py": "losses/kernels/test_sigmoid.py",
    "recipes/figure_runs.py": "commands/test_figure.py",
    "recipes/mini.py": "recipes/test_table_rows.py",
    "tasks/classification/export.py": "commands/test_export.py",
    "tasks/classification/prediction.py": "tasks/test_trained_model.py",
    "tasks/comparison/results.py": "commands/test_compare.py",
    "tasks/detection/export.py": "commands/test_export.py",
    "tasks/export/deployable.py": "commands/test_export.py",
    "tasks/export/metadata.py": "commands/test_export.py",
    "tasks/export/run.py": "commands/test_export.py",
    "tasks/prediction.py": "tasks/test_trained_model.py",
    "tasks/segmentation/export.py": "commands/test_export.py",
    "tasks/segmentation/prediction.py": "tasks/test_trained_model.py",
}


def test_every_module_has_its_test():
    tests = {path.relative_to(ROOT / "tests").as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    untested = set()
    for path in modules():
        module = path.relative_to(PACKAGE)
        if path.name != "__init__.py" and module.with_name(f"test_{path.stem.strip('_')}.py").as_posix() not in tests:
            untested.add(module.as_posix())
    assert untested == TESTED_ELSEWHERE.keys()
    assert set(TESTED_ELSEWHERE.values()) <= tests


def test_files_are_named_after_what_is_in_them():
    vague = re.compile(r"(^|_)(utils?|misc|common|helpers?|tools?|stuff)(_|$)")
    folders = (PACKAGE, ROOT / "tests", ROOT / "benchmarks", ROOT / "examples")
    assert [path for folder in folders for path in folder.rglob("*.py") if vague.search(path.stem)] == []


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


def documented_walk(recipe):
    """(File, function) of each frame in the table of a recipe in `docs/architecture.md`; empty without a table."""
    _, found, text = (ROOT / "docs" / "architecture.md").read_text().partition(f"`equigrad train {recipe}`")
    table = text.partition("\n| 1 |")[2].partition("\n\n")[0] if found else ""
    return tuple(re.findall(r"\[`(\S+)`\]\(\S+\) \| `(\S+)` \|", table))


@pytest.mark.parametrize("recipe", RUNS)
def test_from_the_command_to_the_arithmetic_of_the_loss_are_at_most_eleven_frames(recipe, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rows, "library", None)  # the walk to the arithmetic that can be read, not to its compiled form
    walks = set()

    def remember(frame, event, argument):
        if event != "call" or not frame.f_code.co_filename.startswith(str(PACKAGE / "losses")):
            return
        stack = []
        while frame is not None:
            if frame.f_code.co_filename.startswith(str(PACKAGE)):
                stack.append((os.path.relpath(frame.f_code.co_filename, PACKAGE), frame.f_code.co_qualname))
            frame = frame.f_back
        is_watching = any(
            file.startswith("meter/") for file, _ in stack
        )  # beside the walk: it reads labels as losses do
        if any(name.endswith("_train_step") for _, name in stack) and not is_watching:  # building the model is no walk
            walks.add(tuple(stack[::-1]))

    words = ["train", recipe, "--run", "run", *(word for setting in RUNS[recipe] for word in ("--set", setting))]
    sys.setprofile(remember)
    try:
        assert main(words) == 0
    finally:
        sys.setprofile(None)
    deepest = max(walks, key=len)
    assert 6 <= len(deepest) <= 11, deepest
    documented = documented_walk(recipe)
    assert bool(documented) == (recipe in ("tiny:softmax_eql", "glyph_objects:mask_rcnn"))
    assert not documented or documented in walks
