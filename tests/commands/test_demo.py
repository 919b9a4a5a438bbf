"""`equigrad demo` on fewer glyphs; `tests/test_docs.py` runs it on its own."""

import html
import json
import re

import pytest

from commands.running_commands import equigrad
from equigrad.commands.demo import result_table
from equigrad.recipes import catalogue

# 110, 48, 21 and 9 training images: each group has a category. Small batches: the losses come apart in 23 steps.
GLYPHS = [
    *("data.num_classes=4", "data.max_count=110", "data.imbalance_factor=12", "data.test_count=10"),
    *("training.batch_size=8", "training.schedule.warmup.length=1"),
]
RUNS = ("ce", "softmax_eql", "bce", "sigmoid_eql")
METRICS = ("Overall", "Many", "Medium", "Few")


@pytest.fixture
def demo(monkeypatch, tmp_path):
    """Runs the demo of one epoch on fewer glyphs."""
    load = catalogue.load_recipe
    monkeypatch.setattr(catalogue, "load_recipe", lambda name, settings: load(name, [*GLYPHS, *settings]))
    return lambda: equigrad("demo", "--epochs", 1, "--folder", "demo", folder=tmp_path)


def results(folder):
    return {run: json.loads((folder / run / "evaluation.json").read_text())["result"] for run in RUNS}


def page_differences(page, run):
    """Differences from the first run in the results of the page, by metric."""
    table = re.search(r"<table.*?Results in %.*?</table>", page.read_text(), flags=re.DOTALL)[0]
    head, *rows = re.findall(r"<tr.*?</tr>", table, flags=re.DOTALL)
    cells = {re.sub("<[^>]*>", "", row.partition("</th>")[0]): re.findall("<td.*?</td>", row) for row in rows}
    names = [re.sub("<[^>]*>", "", cell) for cell in re.findall("<th.*?</th>", head)][1:]
    found = [re.search(r'class="difference[^"]*">([^<]*)', cell) for cell in cells[run]]
    return {name: html.unescape(match[1]) if match else "" for name, match in zip(names, found, strict=True)}


def test_the_demo_prints_its_results_and_the_differences_that_the_page_shows(demo, tmp_path):
    done = demo()
    assert done.code == 0, done.err
    folder = tmp_path / "demo"
    found = results(folder)
    assert result_table({f"tiny:{run}": found[run] for run in RUNS}) in done.out
    changes = [line.split()[2:] for line in done.out.splitlines() if line.startswith("   against tiny:ce")]
    printed = dict(zip(METRICS, changes[0], strict=True))
    assert set(changes[0]) != {"0.0"}
    shown = page_differences(folder / "report.html", "softmax_eql")
    assert {name: shown[name] for name in METRICS} == printed
    assert (folder / "groups.png").stat().st_size > 0
    seeds = {json.loads((folder / run / "recipe.json").read_text())["seed"] for run in RUNS}
    assert len(seeds) == 1


def test_a_stopped_demo_exits_with_3_goes_on_and_when_finished_only_shows_its_results(demo, stopping_glyphs, tmp_path):
    stopped = demo()
    assert stopped.code == 3, stopped.err
    assert [folder.name for folder in (tmp_path / "demo").iterdir()] == ["ce"]
    assert "accuracy in %" not in stopped.out
    stopping_glyphs.undo()
    finished = demo()
    assert finished.code == 0, finished.err
    assert "resuming at step 1 of " in finished.out
    again = demo()
    assert again.code == 0, again.err
    assert "steps/s" in finished.out
    assert "steps/s" not in again.out  # no step was trained
    table = finished.out[finished.out.index("accuracy in %") :]
    assert again.out.endswith(table)
