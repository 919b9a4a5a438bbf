import json
import os
import re
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from analysis.run_folders import NAMES, evaluation, statistics, write_run
from analysis.test_markup import HOSTILE, Reader
from browser import needs_browser, visit
from equigrad.analysis.history import RunHistory
from equigrad.analysis.report import write_report
from equigrad.data.frequency import load_frequencies

HOSTILE_NAME = "</script><script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\">"


def data_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)[1])


def without_plotly(page):
    """The page with a stand-in for the large script."""
    return re.sub(r"<script>/\*\*.*?</script>", "<script></script>", page.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.fixture
def folders(tmp_path):
    better = evaluation([0.6, 0.5, 0.5, 0.4, 0.3, 0.2], {"AP": 0.35, "APr": 0.21, "APc": 0.25, "APf": 0.49})
    second = write_run(tmp_path / "eql", ratio=(1, 1, 0.9, 0.8, 0.6, 0.5), evaluation=better)
    return [write_run(tmp_path / "bce"), second]


@pytest.fixture
def page(folders, tmp_path):
    return write_report(folders, tmp_path / "report.html", names=["BCE", "Sigmoid-EQL"])


def test_the_library_is_inside_once_and_nothing_is_fetched(page):
    text = page.read_text(encoding="utf-8")
    assert text.count("* plotly.js v") == 1
    own = without_plotly(page)
    assert len(own) < 100_000
    assert not re.search(r"https?:|\bsrc=|@import|url\(", own)
    assert "default-src 'none'" in own


def test_the_page_carries_what_its_script_draws(page):
    data = data_of(page)
    assert data["names"] == list(NAMES)
    assert data["steps"] == [50, 100]  # nothing was received at step 0
    assert data["metric"] == "AP"
    first, second = data["runs"]
    assert first["final"] == [1, 0.9, 0.6, 0.4, 0.1, 0.01]
    assert first["metric"] == [0.6, 0.5, 0.4, 0.2, 0.1, None]
    assert second["ratio"][-1] == second["final"] == [1, 1, 0.9, 0.8, 0.6, 0.5]
    assert second["curves"][2] == [None, 0.55, 0.55]  # rare


def test_at_each_step_a_run_shows_what_it_knew_then(tmp_path):
    early = write_run(tmp_path / "early", statistics=statistics([1.0] * 6, steps=(10, 40)))
    late = write_run(tmp_path / "late", statistics=statistics([0.5] * 6, steps=(30, 60)))
    data = data_of(write_report([early, late], tmp_path / "report.html"))
    assert data["steps"] == [10, 30, 40, 60]
    assert [row and row[0] for row in data["runs"][0]["ratio"]] == [1, 1, 1, 1]
    assert [row and row[0] for row in data["runs"][1]["ratio"]] == [None, 0.5, 0.5, 0.5]


def test_the_page_is_the_same_each_time_and_replaces_the_old_one(folders, page):
    before = page.read_bytes()
    write_report(folders, page, names=["BCE", "Sigmoid-EQL"])
    assert page.read_bytes() == before
    assert not [name for name in os.listdir(page.parent) if name.startswith(".")]


def test_a_failure_leaves_the_old_page(folders, page):
    before = page.read_bytes()
    (folders[1] / "evaluation.json").write_text("{")
    with pytest.raises(ValueError, match=r"evaluation\.json: content is not JSON"):
        write_report(folders, page)
    assert page.read_bytes() == before


def test_runs_without_statistics_or_evaluation_are_said_to_be_so(folders, tmp_path):
    plain = write_run(tmp_path / "ce", statistics=None)
    unevaluated = write_run(tmp_path / "new", evaluation=None)
    text = without_plotly(write_report([*folders, plain, unevaluated], tmp_path / "report.html"))
    assert "ce keeps no gradient statistics" in text
    assert "new has not been evaluated." in text
    assert "bce keeps no" not in text


def test_checks_on_a_part_of_the_test_set_are_shown_as_such(tmp_path):
    metrics = [{"step": 50, "check": {"AP<b>": 0.25}}, {"step": 1100, "check": {"AP<b>": 0.3}}]
    page = write_report([write_run(tmp_path / "bce", metrics=metrics)], tmp_path / "page.html").read_text()
    expected = (
        "While bce was trained, a part of the test set was evaluated: AP&lt;b&gt; 25.0 at step 50, 30.0 at step 1,100."
    )
    assert expected in page


def test_without_any_statistics_the_figures_are_left_out(tmp_path):
    folder = write_run(tmp_path / "ce", statistics=None)
    text = without_plotly(write_report([folder], tmp_path / "report.html"))
    assert '<section id="ratio" hidden>' in text
    assert '<section id="results">' in text


def test_different_training_data_is_noted(tmp_path):
    other = evaluation([0.5] * 6)
    other["categories"][0]["count"] = 1
    runs = [write_run(tmp_path / "one"), write_run(tmp_path / "two", evaluation=other)]
    assert "counts and groups are those of one" in without_plotly(write_report(runs, tmp_path / "report.html"))


@pytest.mark.parametrize(
    ("result", "metric"),
    [({"Overall": 0.5, "Many": 0.6, "Few": 0.1}, "accuracy"), ({"AP": 0.3, "APr": 0.1}, "AP"), ({"mIoU": 0.4}, "IoU")],
    ids=["classification", "detection", "segmentation"],
)
def test_metric_names_come_from_the_evaluation(tmp_path, result, metric):
    run = write_run(tmp_path / "run", evaluation=evaluation([0.5] * 6, result, metric=metric))
    file = write_report([run], tmp_path / "report.html")
    assert all(f'<th scope="col">{name}</th>' in without_plotly(file) for name in result)
    assert data_of(file)["metric"] == metric


def test_the_names_must_be_as_many_as_the_runs(folders, tmp_path):
    with pytest.raises(ValueError, match="names must be 2, one for each run, got 1"):
        write_report(folders, tmp_path / "report.html", names=["one"])


@patch("plotly.offline.get_plotlyjs", lambda: "/** stands in for four megabytes, which are the same in every page */")
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(HOSTILE, HOSTILE)
def test_no_text_from_data_becomes_markup(tmp_path_factory, category, run_name):
    folder = tmp_path_factory.mktemp("hostile")
    harmless, hostile = (
        write_run(folder / name, evaluation=evaluation([0.5] * 6, {metric: 0.5}, metric, [text, *NAMES[1:]]))
        for name, text, metric in (("a", "x", "AP"), ("b", category, "AP" + category.replace("\x00", "")))
    )
    expected = Reader(without_plotly(write_report([harmless], folder / "a.html", names=["x"], title="x")))
    file = write_report([hostile], folder / "b.html", names=[run_name], title=run_name)
    assert Reader(without_plotly(file)).elements == expected.elements
    assert data_of(file)["names"][0] == category
    assert data_of(file)["runs"][0]["name"] == run_name


def test_half_of_a_character_does_not_stop_the_page(tmp_path):
    run = write_run(tmp_path / "run", evaluation=evaluation([0.5] * 6, names=["\ud800", *NAMES[1:]]))
    assert write_report([run], tmp_path / "report.html").exists()


@pytest.fixture(scope="module")
def large_page(tmp_path_factory):
    """Four runs over the categories of LVIS, one of them with a name that would take over a careless page."""
    folder = tmp_path_factory.mktemp("large")
    lvis = load_frequencies("lvis_v1")
    random = np.random.default_rng(0)
    names = [HOSTILE_NAME, *lvis.names[1:]]
    folders = []
    for number in range(4):
        values = random.random(len(lvis))
        categories = [
            {"name": name, "count": int(count), "AP": float(value)}
            for name, count, value in zip(names, lvis.image_counts, values, strict=True)
        ]
        folders.append(
            write_run(
                folder / f"run{number}",
                statistics=statistics(random.random(len(lvis)), steps=np.arange(0, 1001, 20)),
                evaluation={"result": {"AP": 0.2 + number / 50, "APr": 0.1}, "categories": categories},
            )
        )
    return write_report(folders, folder / "report.html")


def test_four_runs_of_lvis_fit_in_six_megabytes(large_page):
    assert large_page.stat().st_size < 6_000_000


LOOK = """
const rows = (selector) => document.querySelectorAll(selector).length;
const click = (selector) => document.querySelector(selector).click();
const cell = (row, column) => document.querySelectorAll("#category-table tbody tr")[row].cells[column].textContent;
const texts = (cells) => [...cells].map((cell) => cell.textContent);
const column = (number) => texts(document.querySelectorAll(`#category-table tbody tr > :nth-child(${number + 1})`));
const overflow = (box) => box.scrollWidth - box.clientWidth;
const set = (id, value, kind) => {
  const box = document.getElementById(id);
  box.value = value;
  box.dispatchEvent(new Event(kind));
};
"""


@needs_browser
def test_the_page_draws_its_figures_and_fills_its_tables_without_complaint(large_page):
    seen = visit(
        large_page,
        LOOK
        + """
        return {
          rows: rows("#category-table tbody tr"), cells: rows("#category-table tbody tr:first-child > *"),
          lines: rows("#ratio-plot .scatterlayer .js-line"), dots: rows("#ratio-plot .point"),
          curves: rows("#training-plot .scatterlayer .js-line"), title: document.title,
          overflow: [document.documentElement, document.querySelector(".tall")].map(overflow),
          shared: Boolean(document.querySelector('[data-title*="loud" i], [data-title*="hare" i]')),
          step: document.getElementById("step-shown").textContent,
        };""",
    )
    assert seen.complaints == []
    assert seen.answer == {
        "rows": 1203,
        "cells": 3 + 2 + 3 * 3,
        "lines": 4,
        "dots": 4 * 1203,
        "curves": 4 * 3,
        "title": "4 runs compared",
        "overflow": [0, 0],
        "shared": False,
        "step": "1,000 of 1,000",
    }


@needs_browser
def test_a_hostile_name_is_shown_as_text(large_page):
    seen = visit(
        large_page,
        LOOK
        + """
        set("filter", "onerror", "input");
        return [rows("#category-table tbody tr"), cell(0, 0), document.title, rows("main img")];""",
    )
    assert seen.complaints == []
    assert seen.answer == [1, HOSTILE_NAME, "4 runs compared", 0]


@needs_browser
def test_the_table_sorts_by_click_and_filters_by_name_and_group(page):
    seen = visit(
        page,
        LOOK
        + """
        const head = (number) => `#category-table thead tr:last-child th:nth-child(${number}) button`;
        const found = { first: column(0), row: texts(document.querySelector("#category-table tbody tr").cells) };
        click(head(1)); found.byName = column(0);
        click(head(5)); found.byMetric = column(4);
        found.sorted = document.querySelector("[aria-sort]").getAttribute("aria-sort");
        click(head(5)); found.ascending = column(4);
        set("filter", "Y", "input"); found.filtered = column(0);
        set("group", "2", "change"); found.rare = column(0);
        found.shown = document.getElementById("shown").textContent;
        return found;""",
    )
    assert seen.complaints == []
    assert seen.answer == {
        "first": list(NAMES),
        "row": ["person", "frequent", "900", "1.00", "60.0", "1.00", "60.0", "0.0"],
        "byName": sorted(NAMES),
        "byMetric": ["60.0", "50.0", "40.0", "20.0", "10.0", "–"],
        "sorted": "descending",
        "ascending": ["10.0", "20.0", "40.0", "50.0", "60.0", "–"],
        "filtered": ["unicycle", "yoke"],
        "rare": ["unicycle", "yoke"],
        "shown": "2 of 6 categories",
    }


@needs_browser
def test_differences_of_categories_are_those_of_the_exact_values(tmp_path):
    values = [[0.7214, 0.9904, 0.4, 0.5, 0.5, 0.1], [0.8975, 0.9896, 0.4, 0.50004, 0.49996, None]]
    runs = [write_run(tmp_path / name, evaluation=evaluation(own)) for name, own in zip("ab", values, strict=True)]
    seen = visit(write_report(runs, tmp_path / "report.html"), LOOK + "return column(7);")
    assert seen.complaints == []
    assert seen.answer == ["+17.6", "−0.1", "0.0", "0.0", "0.0", "–"]


@needs_browser
def test_the_slider_moves_the_figure_through_training(tmp_path):
    arrays = statistics([1.0] * 6, steps=(0, 50, 100))
    arrays["criterion.statistics.positive"][1] = 10  # a fifth of what balance needs
    page = write_report([write_run(tmp_path / "run", statistics=arrays)], tmp_path / "report.html")
    seen = visit(
        page,
        LOOK
        + """
        const shown = () => document.getElementById("ratio-plot").data[0].y[0];
        const label = () => document.getElementById("step-shown").textContent;
        const found = [[label(), shown()]];
        set("step", 0, "input"); await settled(); found.push([label(), shown()]);
        click("#play"); await new Promise((resolve) => setTimeout(resolve, 1500));
        found.push([label(), shown(), document.getElementById("play").textContent]);
        return found;""",
    )
    assert seen.complaints == []
    assert seen.answer == [["100 of 100", 1], ["50 of 100", 0.2], ["100 of 100", 1, "Play"]]


@needs_browser
def test_dark_mode_darkens_the_page_and_lightens_the_figures(page):
    question = """
        const style = (selector, name) => getComputedStyle(document.querySelector(selector))[name];
        const line = "#ratio-plot .scatterlayer .js-line";
        return [style("body", "backgroundColor"), style("#ratio-plot .xtick text", "fill"), style(line, "stroke")];"""
    light, dark = visit(page, question), visit(page, question, dark=True)
    assert light.complaints == dark.complaints == []
    assert light.answer == ["rgb(255, 255, 255)", "rgb(27, 31, 36)", "rgb(0, 114, 178)"]
    assert dark.answer == ["rgb(20, 23, 27)", "rgb(231, 234, 238)", "rgb(74, 168, 230)"]


@needs_browser
def test_a_narrow_page_does_not_scroll_sideways(page):
    seen = visit(page, LOOK + "return [innerWidth, overflow(document.documentElement)];", width=500)
    assert seen.complaints == []
    assert seen.answer == [500, 0]


@needs_browser
def test_a_page_without_statistics_or_without_evaluation_works(tmp_path):
    question = LOOK + 'return [rows("#category-table tbody tr"), rows(".scatterlayer .js-line"), column(0)[0]];'
    unwatched = write_report([write_run(tmp_path / "a" / "run", statistics=None)], tmp_path / "a" / "report.html")
    unevaluated = write_report([write_run(tmp_path / "b" / "run", evaluation=None)], tmp_path / "b" / "report.html")
    first, second = visit(unwatched, question), visit(unevaluated, question)
    assert first.complaints == second.complaints == []
    assert first.answer == [6, 0, "person"]
    assert second.answer == [6, 4, "category 0"]


@needs_browser
def test_on_paper_the_figures_are_light_and_fit_the_width(page):
    seen = visit(
        page,
        """
        dispatchEvent(new Event("beforeprint")); await settled();
        const plot = document.getElementById("ratio-plot");
        const found = [plot._fullLayout.width, plot._fullLayout.font.color];
        dispatchEvent(new Event("afterprint")); await settled();
        return [...found, plot._fullLayout.width > 1000, document.documentElement.dataset.theme ?? null];""",
        dark=True,
    )
    assert seen.complaints == []
    assert seen.answer == [680, "#1b1f24", True, None]


def test_a_log_that_was_cut_is_noticed(tmp_path):
    folder = write_run(tmp_path / "run")
    log = folder / "metrics.jsonl"
    assert RunHistory.load(folder).lost_lines is None
    log.write_bytes(log.read_bytes()[:-5])
    lost = RunHistory.load(folder).lost_lines
    assert str(log) in lost
    assert lost in write_report([folder], tmp_path / "a.html").read_text()


@needs_browser
def test_ticks_of_few_categories_are_whole_numbers(page):
    question = 'return [...document.querySelectorAll("#ratio-plot .xtick text")].map((tick) => tick.textContent);'
    assert visit(page, question).answer == [str(number) for number in range(len(NAMES) + 2)]
