"""Every command and example of README and docs runs."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from equigrad.cli import _parser, main
from images_on_disk import write_images
from segmentation_on_disk import write_set
from small_detection_data import write_small_data

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

# What makes a documented command quick enough for a test, by script.
QUICK = {
    "examples/own_loop.py": ["--steps", "3"],
    "benchmarks/losses.py": ["--shapes", "8x10", "2x5x4x4", "--threads", "1", "--seconds", "0.001"],
    "benchmarks/detection_index.py": ["--annotations", "1000"],
    "benchmarks/evaluation.py": ["--images", "20", "--categories", "10", "--only", "equigrad"],
    "examples/compare_losses.py": None,  # needs images: tests/test_compare_losses.py runs it
    "examples/gradient_as_prior.py": None,  # the same
    "benchmarks/engine.py": ["--steps", "20", "--width", "64"],
    "benchmarks/segmentation.py": ["--rounds", "1", "--batch-size", "2"],
    "benchmarks/segmentation_memory.py": ["--shape", "2x5x32x32", "--losses", "CrossEntropyLoss", "--modes", "tiled"],
    "examples/seed_table.py": None,  # needs runs: tests/test_seed_table.py
    "examples/segmentation_ranks.py": None,  # the same as the next
    "examples/segmentation_by_heart.py": None,  # the same
    "examples/segmentation_overlays.py": None,  # needs runs: tests/test_segmentation_overlays.py makes them
    "benchmarks/glyphs.py": None,  # tests/data covers what it measures; it takes a minute at any size
}


def blocks(language):
    """Code blocks of a language in all pages."""
    for page in PAGES:
        yield from re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def commands():
    """Commands of scripts: lines of plain blocks, and of inline code, that begin with python."""
    lines = [line for block in blocks("") for line in block.splitlines()]
    lines += [code for page in PAGES for code in re.findall(r"`(python [^`]+)`", page.read_text())]
    return sorted({line.split("#")[0].strip() for line in lines if line.startswith("python ")})


def test_every_documented_equigrad_command_parses():
    lines = [line.split("#")[0] for block in blocks("") for line in block.splitlines() if line.startswith("equigrad ")]
    assert len(lines) > 4
    for line in lines:
        _parser().parse_args(shlex.split(line)[1:])  # exits with 2 on an unknown command or option


# What a page on the command line needs in its folder, and what makes its commands quick; None is not run here.
_TINY = [
    *("data.num_classes=5", "data.max_count=12", "data.imbalance_factor=6", "data.test_count=2"),
    *("training.schedule.epochs=1", "training.batch_size=8", "training.schedule.warmup.length=1"),
]
_OWN = ["data.size=32", "training.schedule.epochs=1", "training.batch_size=7", "training.num_workers=0"]
_GLYPHS = [
    *("data.num_classes=4", "data.max_count=12", "data.test_count=2", "data.image_size=64", "training.num_workers=0"),
    *("training.schedule.epochs=1", "training.batch_size=8", "training.schedule.warmup.length=1"),
]
QUICK_COMMANDS = {
    "equigrad demo": None,  # minutes; the demo has tests of its own
    "equigrad train image_classification:": None,  # needs the real images; --check trains them on generated ones
    "equigrad train tiny:": [word for setting in _TINY for word in ("--set", setting)],
    "equigrad train own_data:": [word for setting in _OWN for word in ("--set", setting)],
    "equigrad train glyph_objects:": [word for setting in _GLYPHS for word in ("--set", setting)],
}


@pytest.mark.slow
def test_every_command_of_the_command_line_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_images(Path("photos/train"), {"cat": 12, "dog": 6, "eel": 3}, size=16)
    write_images(Path("photos/test"), {"cat": 2, "dog": 1, "eel": 1}, size=16, seed=1)
    run_commands_of(ROOT / "docs" / "command_line.md", QUICK_COMMANDS, capsys)


def run_commands_of(page, quick_words, capsys):
    """Every line of the plain blocks of a page, with the words of its prefix."""
    plain_blocks = re.findall(r"^```\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    lines = [line for block in plain_blocks for line in block.splitlines()]
    assert all(line.startswith("equigrad ") for line in lines)
    for line in lines:
        quick = next((words for prefix, words in quick_words.items() if line.startswith(prefix)), [])
        if quick is not None:
            assert main(shlex.split(line)[1:] + quick) == 0, f"{line}: {capsys.readouterr().err}"


_SMALL_OBJECTS = [
    *("views.short=64", "views.test_short=64", "views.long=96", "training.num_workers=0"),
    *("training.schedule.epochs=1", "training.batch_size=4", "training.schedule.warmup.length=1"),
]
QUICK_DETECTION = {
    "equigrad train own_data:": [word for setting in _SMALL_OBJECTS for word in ("--set", setting)],
    **dict.fromkeys(("equigrad train one_stage:", "equigrad train two_stage:", "equigrad train yolox:")),  # real images
    "equigrad evaluate runs/faster_ce": None,  # the run of such a training
}


@pytest.mark.slow
def test_every_command_of_the_detection_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_small_data(Path())
    run_commands_of(ROOT / "docs" / "detection.md", QUICK_DETECTION, capsys)


_SMALL_MAPS = [
    *("data.crop_size=32,32", "data.base=none", "training.schedule.epochs=1", "training.batch_size=2"),
    *("training.schedule.warmup.length=1", "training.num_workers=0"),
]
QUICK_SEGMENTATION = {
    "equigrad train own_data:": [word for setting in _SMALL_MAPS for word in ("--set", setting)],
    **dict.fromkeys(("equigrad data ade20k-lt", "equigrad train semantic_segmentation:")),  # need ADE20K
}


@pytest.mark.slow
def test_every_command_of_the_segmentation_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    labels = np.kron([[0, 1], [1, 2]], np.ones((24, 32), dtype=np.uint8))
    write_set(tmp_path, dict.fromkeys("abcdefgh", labels))
    run_commands_of(ROOT / "docs" / "segmentation.md", QUICK_SEGMENTATION, capsys)
    assert (tmp_path / "pictures").is_dir()


def test_every_documented_script_is_known_to_this_test():
    assert commands()
    for command in commands():
        assert shlex.split(command)[1] in QUICK, f"add {command!r} to QUICK"


@pytest.mark.slow
@pytest.mark.parametrize("command", commands())
def test_a_documented_command_runs(command, tmp_path):
    script, *arguments = shlex.split(command)[1:]
    if QUICK[script] is None:
        assert (ROOT / script).exists()
        return
    # Last wins: the quick settings replace those of the page.
    line = [sys.executable, str(ROOT / script), *arguments, *QUICK[script]]
    run = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout


@pytest.mark.parametrize("name", re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
def test_makefile_targets_are_declared(name):
    assert name in (ROOT / "Makefile").read_text().split(".PHONY:")[1].splitlines()[0].split()


def test_the_loop_of_the_readme_runs():
    import torch

    (code,) = [block for block in blocks("python") if "for images, labels in loader" in block]
    model = torch.nn.Linear(3, 4)
    loader = [(torch.randn(5, 3), torch.tensor([0, 1, 2, 3, 0])) for _ in range(2)]
    exec(code, names := {"num_classes": 4, "model": model, "loader": loader})
    assert names["criterion"].statistics.positive.sum() > 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target
