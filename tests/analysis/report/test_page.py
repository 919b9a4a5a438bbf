import json
import os
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from analysis.report.many_categories import many_runs
from analysis.run_folders import NAMES, evaluation, recognition, statistics, write_run
from analysis.test_markup import HOSTILE, Reader
from browser import needs_browser, visit
from equigrad.analysis.history import RunHistory
from equigrad.analysis.report import write_report
from equigrad.analysis.rounding import percent
from equigrad.data.frequency import load_frequencies

UNUSUAL_NAMES = ["猫", "🦄 unicorn", "قطة (cat)", "חתול", "a\u202egnp.exe", "ﷺ" * 40]  # scripts, emoji, directions
HOSTILE_NAME = "</script><script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\">"


def data_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)[1])


@pytest.fixture
def folders(tmp_path):
    better = evaluation([0.6, 0.5, 0.5, 0.4, 0.3, 0.2], {"AP": 0.35, "APr": 0.21, "APc": 0.25, "APf": 0.49})
    second = write_run(tmp_path / "eql", ratio=(1, 1, 0.9, 0.8, 0.6, 0.5), evaluation=better)
    return [write_run(tmp_path / "bce"), second]


@pytest.fixture
def page(folders, tmp_path):
    return write_report(folders, tmp_path / "report.html", names=["BCE", "Sigmoid-EQL"])


def test_a_page_is_small_and_fetches_nothing(page):
    text = page.read_text(encoding="utf-8")
    assert len(text) < 100_000
    assert not re.search(r"https?:(?!//www\.w3\.org/2000/svg)|\bsrc=|@import|url\(", text)
    assert "default-src 'none'" in text


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
    text = write_report([*folders, plain, unevaluated], tmp_path / "report.html").read_text()
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
    text = write_report([folder], tmp_path / "report.html").read_text()
    assert '<section id="ratio" hidden>' in text
    assert '<section id="results">' in text


def test_different_training_data_is_noted(tmp_path):
    other = evaluation([0.5] * 6)
    other["categories"][0]["count"] = 1
    runs = [write_run(tmp_path / "one"), write_run(tmp_path / "two", evaluation=other)]
    assert "counts and groups are those of one" in write_report(runs, tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("result", "metric"),
    [({"Overall": 0.5, "Many": 0.6, "Few": 0.1}, "accuracy"), ({"AP": 0.3, "APr": 0.1}, "AP"), ({"mIoU": 0.4}, "IoU")],
    ids=["classification", "detection", "segmentation"],
)
def test_metric_names_come_from_the_evaluation(tmp_path, result, metric):
    run = write_run(tmp_path / "run", evaluation=evaluation([0.5] * 6, result, metric=metric))
    file = write_report([run], tmp_path / "report.html")
    assert all(f'<th scope="col">{name}</th>' in file.read_text() for name in result)
    assert data_of(file)["metric"] == metric


def test_the_names_must_be_as_many_as_the_runs(folders, tmp_path):
    with pytest.raises(ValueError, match="names must be 2, one for each run, got 1"):
        write_report(folders, tmp_path / "report.html", names=["one"])


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(HOSTILE, HOSTILE)
def test_no_text_from_data_becomes_markup(tmp_path_factory, category, run_name):
    folder = tmp_path_factory.mktemp("hostile")
    harmless, hostile = (
        write_run(folder / name, evaluation=evaluation([0.5] * 6, {metric: 0.5}, metric, [text, *NAMES[1:]]))
        for name, text, metric in (("a", "x", "AP"), ("b", category, "AP" + category.replace("\x00", "")))
    )
    expected = Reader(write_report([harmless], folder / "a.html", names=["x"], title="x").read_text())
    file = write_report([hostile], folder / "b.html", names=[run_name], title=run_name)
    found = Reader(file.read_text(encoding="utf-8")).elements
    breaks_apart = [[tag for tag in tags if tag != "wbr"] for tags in (found, expected.elements)]  # after underscores
    assert breaks_apart[0] == breaks_apart[1]
    assert data_of(file)["names"][0] == category
    assert data_of(file)["runs"][0]["name"] == run_name


def test_half_of_a_character_does_not_stop_the_page(tmp_path):
    run = write_run(tmp_path / "run", evaluation=evaluation([0.5] * 6, names=["\ud800", *NAMES[1:]]))
    assert write_report([run], tmp_path / "report.html").exists()


@pytest.fixture(scope="module")
def lvis_page(tmp_path_factory):
    """Four runs over the categories of LVIS, some with names that would take over or upset a careless page."""
    folder = tmp_path_factory.mktemp("lvis")
    lvis = load_frequencies("lvis_v1")
    names = [HOSTILE_NAME, *UNUSUAL_NAMES, *lvis.names[1 + len(UNUSUAL_NAMES) :]]
    return write_report(list(many_runs(folder, names, lvis.image_counts)), folder / "report.html")


@pytest.fixture(scope="module")
def inaturalist_page(tmp_path_factory):
    """Two runs over as many categories as iNaturalist 2018 has."""
    folder = tmp_path_factory.mktemp("inaturalist")
    names = [f"species {number}" for number in range(8142)]
    counts = 1000 // (1 + np.arange(8142)) + 2
    return write_report(list(many_runs(folder, names, counts, num_runs=2)), folder / "report.html")


def test_a_page_of_thousands_of_categories_is_below_five_megabytes(lvis_page, inaturalist_page):
    assert lvis_page.stat().st_size < 5_000_000
    assert inaturalist_page.stat().st_size < 5_000_000


LOOK = """
const rows = (selector) => document.querySelectorAll(selector).length;
const body = "#category-table tbody tr:not(.gap)";
const click = (selector) => document.querySelector(selector).click();
const texts = (cells) => [...cells].map((cell) => cell.textContent);
const column = (number) => texts(document.querySelectorAll(`${body} > :nth-child(${number + 1})`));
const overflow = (box) => box.scrollWidth - box.clientWidth;
const text = (id) => document.getElementById(id).textContent;
const numDots = (path) => path.getAttribute("d").split("M").length - 1;
const set = (id, value, kind) => {
  const box = document.getElementById(id);
  box.value = value;
  box.dispatchEvent(new Event(kind));
};
"""


@needs_browser
def test_the_page_draws_its_figures_and_fills_its_tables_without_complaint(lvis_page):
    seen = visit(
        lvis_page,
        LOOK
        + """
        document.querySelector("#ratio details").open = true; await settled();
        return {
          cells: rows("#category-table tbody tr:nth-child(2) > *"), shown: text("shown"),
          won: rows("#won-plot .line"), dots: [...document.querySelectorAll("#won-plot .dots")].map(numDots),
          wonCurves: rows("#won-training .line"),
          ratios: rows("#ratio-plot .line"), reliability: rows("#reliability .line"), losses: rows("#course .line"),
          title: document.title, step: text("won-shown"),
          overflow: [document.documentElement, document.querySelector(".tall")].map(overflow),
        };""",
    )
    assert seen.complaints == []
    assert seen.answer == {
        "cells": 3 + 3 + 3 * 4,
        "shown": "1,203 of 1,203 categories",
        "won": 4,
        "dots": [1203] * 4,
        "wonCurves": 4 * 3,
        "ratios": 4,
        "reliability": 4 * 3,
        "losses": 4,
        "title": "4 runs compared",
        "step": "step 1,000 of 1,000",
        "overflow": [0, 0],
    }


@needs_browser
def test_a_hostile_name_is_shown_as_text(lvis_page):
    seen = visit(
        lvis_page,
        LOOK
        + """
        set("filter", "onerror", "input");
        const found = [column(0), document.title, rows("main img")];
        for (const name of NAMES) { set("filter", name.split(" ")[0], "input"); found.push(column(0)[0]); }
        return found;""".replace("NAMES", json.dumps(UNUSUAL_NAMES)),
    )
    assert seen.complaints == []
    assert seen.answer == [[HOSTILE_NAME], "4 runs compared", 0, *UNUSUAL_NAMES]


@needs_browser
def test_of_thousands_of_rows_those_in_view_are_in_the_document(inaturalist_page):
    seen = visit(
        inaturalist_page,
        LOOK
        + """
        const frame = document.querySelector(".tall");
        const found = [rows(body) < 100, column(0)[0], frame.scrollHeight > 8142 * 30];
        frame.scrollTop = frame.scrollHeight; await settled();
        found.push(rows(body) < 100, column(0).at(-1));
        set("filter", "8141", "input"); found.push(column(0), text("shown"));
        set("filter", "", "input"); click("#category-table thead tr:last-child th:nth-child(1) button");
        found.push(column(0)[0], frame.scrollTop);
        return found;""",
    )
    assert seen.complaints == []
    assert seen.answer == [
        *(True, "species 0", True),
        *(True, "species 8141"),
        *(["species 8141"], "1 of 8,142 categories"),
        *("species 0", 0),
    ]


@needs_browser
def test_a_figure_of_thousands_of_categories_has_lines_alone_and_names_where_there_is_room(inaturalist_page):
    seen = visit(
        inaturalist_page,
        LOOK
        + """
        return [rows("#won-plot .dots"), texts(document.querySelectorAll("#won-plot .group")),
          document.querySelector("#won figcaption").textContent];""",
    )
    assert seen.complaints == []
    assert seen.answer == [0, ["few"], "Categories are sorted by training count, most first. Lines: running median."]


@needs_browser
def test_the_table_sorts_by_click_and_filters_by_name_and_group(page):
    seen = visit(
        page,
        LOOK
        + """
        const head = (number) => `#category-table thead tr:last-child th:nth-child(${number}) button`;
        const found = { first: column(0), row: texts(document.querySelector(body).cells) };
        click(head(1)); found.byName = column(0);
        click(head(5)); found.byMetric = column(4);
        found.sorted = document.querySelector("[aria-sort]").getAttribute("aria-sort");
        click(head(5)); found.ascending = column(4);
        set("filter", "Y", "input"); found.filtered = column(0);
        set("group", "2", "change"); found.rare = column(0);
        found.shown = text("shown");
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
def test_numbers_of_the_table_are_rounded_as_in_the_terminal(tmp_path):
    values = [[0.7214, 0.9904, 0.4, 0.5, 0.0625, 0.1], [0.8975, 0.9896, 0.4, 0.50004, 0.1875, None]]
    runs = [write_run(tmp_path / name, evaluation=evaluation(own)) for name, own in zip("ab", values, strict=True)]
    seen = visit(write_report(runs, tmp_path / "report.html"), LOOK + "return [column(4), column(7)];")
    assert seen.complaints == []
    assert seen.answer[0] == [percent(value) for value in values[0]]
    assert seen.answer[1] == ["+17.6", "−0.1", "0.0", "0.0", "+12.5", "–"]


@needs_browser
def test_the_slider_moves_the_figure_through_training(tmp_path):
    arrays = statistics([1.0] * 6) | recognition([1.0] * 6)
    arrays["criterion.won"][1] = 10  # of 50
    page = write_report([write_run(tmp_path / "run", statistics=arrays)], tmp_path / "report.html")
    seen = visit(
        page,
        LOOK
        + """
        const dots = () => document.querySelector("#won-plot .dots").getAttribute("d");
        const height = () => Number(dots().match(/ ([\\d.]+)h/)[1]);
        const [top, bottom] = [10, 358];
        const won = () => Math.round(100 * (bottom - height()) / (bottom - top));
        const found = [[text("won-shown"), won()]];
        set("won-step", 0, "input"); found.push([text("won-shown"), won()]);
        click("#won-play");
        for (let waits = 0; waits < 100 && (waits === 0 || text("won-play") !== "Play"); waits++) await settled();
        found.push([text("won-shown"), won()]);
        return found;""",
    )
    assert seen.complaints == []
    assert seen.answer == [["step 100 of 100", 100], ["step 50 of 100", 20], ["step 100 of 100", 100]]


@needs_browser
def test_a_run_can_be_hidden_and_a_point_is_described(page):
    seen = visit(
        page,
        LOOK
        + """
        const plot = document.querySelector("#ratio-plot");
        const found = [rows("#ratio-plot .line")];
        click("#ratio .legend button"); found.push(rows("#ratio-plot .line"));
        const box = plot.querySelector("svg").getBoundingClientRect();
        const [, x, y] = plot.querySelector(".dots").getAttribute("d").match(/M([\\d.]+) ([\\d.]+)h/);
        const at = { clientX: box.left + Number(x), clientY: box.top + Number(y) };
        plot.querySelector("svg").dispatchEvent(new PointerEvent("pointermove", at));
        found.push(plot.querySelector(".tip.shown").textContent);
        return found;""",
    )
    assert seen.complaints == []
    assert seen.answer == [2, 1, "person (frequent, 900 training samples)\nSigmoid-EQL: ratio 1, AP 60.0 %"]


@needs_browser
def test_dark_mode_comes_from_the_system_or_a_click(page):
    question = """
        const style = (selector, name) => getComputedStyle(document.querySelector(selector))[name];
        const figure = () => [style("#ratio-plot .label", "fill"), style("#ratio-plot .line", "stroke")];
        const colours = () => [style("body", "backgroundColor"), ...figure()];
        const found = [colours()];
        document.getElementById("theme").click();
        return [...found, colours()];"""
    on_light, on_dark = visit(page, question), visit(page, question, dark=True)
    assert on_light.complaints == on_dark.complaints == []
    light = ["rgb(255, 255, 255)", "rgb(27, 31, 36)", "rgb(0, 114, 178)"]
    dark = ["rgb(20, 23, 27)", "rgb(231, 234, 238)", "rgb(74, 168, 230)"]
    assert on_light.answer == [light, dark]
    assert on_dark.answer == [dark, light]


@needs_browser
def test_a_page_on_a_phone_does_not_scroll_sideways(lvis_page):
    seen = visit(
        lvis_page, LOOK + "await settled(); return [innerWidth, overflow(document.documentElement)];", width=390
    )
    assert seen.complaints == []
    assert seen.answer == [390, 0]


@needs_browser
def test_controls_are_reached_by_keyboard(page):
    question = """
        const found = [];
        for (const box of document.querySelectorAll("button, input, select, summary, a, [tabindex]")) {
          if (!box.checkVisibility()) continue;
          box.focus();
          if (document.activeElement !== box) found.push(box.outerHTML);
        }
        return found;"""
    assert visit(page, question).answer == []


@needs_browser
def test_a_page_without_statistics_or_without_evaluation_works(tmp_path):
    question = LOOK + 'return [rows(body), rows("#ratio-plot .line, #ratio-training .line"), column(0)[0]];'
    unwatched = write_report([write_run(tmp_path / "a" / "run", statistics=None)], tmp_path / "a" / "report.html")
    unevaluated = write_report([write_run(tmp_path / "b" / "run", evaluation=None)], tmp_path / "b" / "report.html")
    first, second = visit(unwatched, question), visit(unevaluated, question)
    assert first.complaints == second.complaints == []
    assert first.answer == [6, 0, "person"]
    assert second.answer == [6, 4, "category 0"]


@needs_browser
def test_on_paper_the_page_is_light_and_has_the_first_rows(inaturalist_page, tmp_path):
    file = tmp_path / "page.pdf"
    seen = visit(
        inaturalist_page,
        LOOK
        + """
        document.querySelector(".tall").scrollTop = 100000; await settled();
        dispatchEvent(new Event("beforeprint"));
        return column(0).slice(0, 40);""",
        dark=True,
        picture=file,
    )
    assert seen.complaints == []
    assert seen.answer == [f"species {number}" for number in range(40)]
    assert file.read_bytes().startswith(b"%PDF")


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
    question = 'return [...document.querySelectorAll("#ratio-plot .x-tick")].map((tick) => tick.textContent);'
    assert visit(page, question).answer == [str(number + 1) for number in range(len(NAMES))]
