"""Every command and example of README and docs runs."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from equigrad.cli import _parser

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

# What makes a documented command quick enough for a test, by script.
QUICK = {
    "examples/own_loop.py": ["--steps", "3"],
    "benchmarks/losses.py": ["--shapes", "8x10", "2x5x4x4", "--threads", "1", "--seconds", "0.001"],
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
