"""Every command and every example of README and docs runs, on small data, in the order of its page.

`docs_pages.py` has what each page needs, and the reasons why a few commands are only parsed.
"""

import argparse
import re
import shlex
import textwrap
from typing import NamedTuple
from unittest.mock import patch

import pytest

from docs_pages import PAGES, SCRIPTS, PageSetup
from equigrad.cli import _parser, main
from equigrad.recipes.catalogue import load_recipe
from scripts import ROOT, run_script

FILES = [
    *(ROOT / "README.md", ROOT / "benchmarks" / "README.md", ROOT / "examples" / "README.md"),
    *sorted((ROOT / "docs").rglob("*.md")),
]
MAKEFILE = (ROOT / "Makefile").read_text()


def each(pages):
    return pytest.mark.parametrize("page", pages, ids=lambda page: page.relative_to(ROOT).as_posix())


every_page = each(FILES)


class Block(NamedTuple):
    """A fenced block of a page."""

    line: int
    language: str
    text: str


def blocks_of(page):
    text = page.read_text()
    found = re.finditer(r"^( *)```(\w*)\n(.*?)^\1```$", text, flags=re.MULTILINE | re.DOTALL)
    return [Block(text.count("\n", 0, fence.start()) + 1, fence[2], textwrap.dedent(fence[3])) for fence in found]


def inline_commands(page, program):
    """Commands in the text itself, such as `python examples/own_loop.py`, which may be broken into two lines."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [" ".join(code.split()) for code in re.findall(rf"`({program}\s[^`]+)`", text)]


def setup_of(page):
    return PAGES.get(page.relative_to(ROOT).as_posix(), PageSetup())


def is_output(block, setup):
    return block.language == "text" or (not block.language and block.text.startswith(tuple(setup.outputs) or "\0"))


def commands_of(page):
    """Lines of plain blocks, without comments."""
    plain = [block for block in blocks_of(page) if not block.language and not is_output(block, setup_of(page))]
    return [line.partition(" #")[0].strip() for block in plain for line in block.text.splitlines()]


@pytest.mark.slow
@every_page
def test_what_a_page_shows_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    setup = setup_of(page)
    for package in setup.needs:
        pytest.importorskip(package, reason=f"needs {package}: make test-integrations")
    setup.write(tmp_path)
    names = {"__name__": "example", **setup.names()}
    for block in blocks_of(page):
        where = f"{page.relative_to(ROOT)}, line {block.line}"
        if block.language == "python":
            run_example(block, where, names)
        elif not is_output(block, setup):
            assert not block.language, f"{where}: a block of {block.language}, which no test runs"
            for line in block.text.splitlines():
                run_command(line.partition(" #")[0].strip(), setup, where, capsys)
    for command in inline_commands(page, "python"):
        run_command(command, setup, str(page.relative_to(ROOT)), capsys)
    setup.check(names)


def run_example(block, where, names):
    """Run the Python of a block; a failure names the page, and its traceback the line in it."""
    try:
        # Empty lines in front: line numbers are those of the page.
        exec(compile("\n" * block.line + block.text, where, "exec"), names)
    except Exception as error:
        raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error


def run_command(command, setup, where, capsys):
    """Run a command of a page in this process, shorter than it says."""
    program, *words = shlex.split(command)
    if any(command.startswith(prefix) for prefix in setup.not_run):
        check_unrun(program, words, where)
        return
    setup.before(command)
    shorter = next((extra for prefix, extra in setup.shorter.items() if command.startswith(prefix)), None)
    if program == "equigrad":
        assert main([*words, *(shorter or ())]) == 0, f"{where}: {command}: {capsys.readouterr().err}"
        printed = capsys.readouterr().out
    else:
        assert program == "python", f"{where}: {command!r} is neither a command nor listed as output"
        shorter = SCRIPTS.get(words[0]) if shorter is None else shorter
        assert shorter is not None, f"{where}: add {words[0]} to SCRIPTS"
        done = run_script(*words, *shorter)
        assert done.returncode == 0, f"{where}: {command}: {done.stderr}"
        printed = done.stdout
    assert printed, f"{where}: {command}: nothing was printed"


def parse_and_stop(parser):
    """Ends a script once its arguments are understood."""
    assert not parser.parse_known_args()[1], "unknown arguments"
    parser.exit(0)


def check_unrun(program, words, where):
    """What is not run must at least be right: the options, the recipe and the names of its settings."""
    if program == "make":
        assert words[0] in make_targets(), f"{where}: no target {words[0]}"
        return
    if program == "python":
        with patch.object(argparse.ArgumentParser, "parse_args", parse_and_stop):
            done = run_script(*words)
        assert done.returncode == 0, f"{where}: {done.stderr}"
        return
    assert program == "equigrad", f"{where}: {program}"
    parsed = _parser().parse_args(words)  # exits with 2 on an unknown command or option
    if words[0] == "train":
        load_recipe(parsed.recipe, parsed.set)


@every_page
def test_commands_in_the_text_parse(page):
    for command in inline_commands(page, "equigrad"):
        words = command.split()[1:]
        if len(words) > 1:
            _parser().parse_args([word.strip("…") for word in words if word != "…"])
        else:
            with pytest.raises(SystemExit) as end:
                _parser().parse_args([*words, "--help"])
            assert end.value.code == 0, command


@pytest.mark.parametrize("name", PAGES)
def test_what_is_prepared_for_a_page_is_used(name):
    commands = [*commands_of(ROOT / name), *inline_commands(ROOT / name, "python")]
    setup = PAGES[name]
    for prefix in (*setup.shorter, *setup.not_run):
        assert any(command.startswith(prefix) for command in commands), f"{name} has no command {prefix!r}"
    assert all(setup.not_run.values()), "give the reason"
    plain = [block.text for block in blocks_of(ROOT / name) if not block.language]
    for first in setup.outputs:
        assert any(text.startswith(first) for text in plain), f"{name} has no output {first!r}"


def make_targets():
    return re.findall(r"^([a-z][a-z-]*):", MAKEFILE, flags=re.MULTILINE)


def test_makefile_targets_are_declared():
    (declared,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, flags=re.MULTILINE)
    assert sorted(declared.split()) == sorted(make_targets())


def test_the_quick_tests_exist():
    (quick,) = re.findall(r"^QUICK_TESTS := (.*)$", MAKEFILE, flags=re.MULTILINE)
    assert all((ROOT / path).exists() for path in quick.split())


def anchors_of(page):
    """What links may name after `#`: headings, in the form that they have in addresses, and ids."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    in_addresses = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return in_addresses | set(re.findall(r' id="([^"]+)"', text))


@each(sorted({*FILES, *ROOT.glob("*.md")}))
def test_links_between_pages_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", page.read_text()):
        if not target.startswith("http"):
            linked = page.parent / target if target else page
            assert linked.exists(), target
            assert not anchor or anchor in anchors_of(linked), f"{target}#{anchor}"


def test_the_entries_list_every_page_and_every_example():
    linked = {
        name: re.findall(r"\]\(([^)#]+\.(?:md|py))", (ROOT / name / "README.md").read_text())
        for name in ("docs", "examples")
    }
    assert {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"} <= set(linked["docs"])
    assert {path.name for path in (ROOT / "examples").glob("*.py")} <= set(linked["examples"])
