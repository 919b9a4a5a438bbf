"""`equigrad report`; what is on the page is in `tests/analysis`."""

import re

import pytest

from commands.running_commands import equigrad
from tasks.examples.glyph_runs import write_glyph_run


def test_report_writes_one_page(run, tmp_path):
    done = equigrad("report", run, "--output", tmp_path / "page.html")
    assert done.code == 0, done.err
    assert "<html" in (tmp_path / "page.html").read_text()


@pytest.fixture
def runs(tmp_path):
    write_glyph_run(tmp_path / "first", [0] * 5)
    write_glyph_run(tmp_path / "second", [3] * 5)
    return tmp_path


def test_two_runs_are_compared_with_test_images_unless_they_are_unwanted(runs):
    done = equigrad("report", "first", "second", "--output", "page.html", folder=runs)
    assert (done.code, done.out.strip()) == (0, "page.html")
    assert len(re.findall('<img src="data:image/jpeg', (runs / "page.html").read_text())) == 3
    done = equigrad("report", "first", "second", "--no-images", "--output", "page.html", folder=runs)
    assert done.code == 0
    assert "<img" not in (runs / "page.html").read_text()
