import re

import pytest

from analysis.run_folders import evaluation, write_run
from equigrad.analysis.comparison import compare
from equigrad.analysis.history import RunHistory
from equigrad.analysis.report import write_report
from equigrad.analysis.report.examples import Answer, Example, Examples, changed_categories, example_section

FIRST, SECOND = [0.6, 0.5, 0.5, 0.4, 0.3, 0.2], [0.9, 0.5, 0.5, 0.4, 0.1, 0.5]


def runs(folder, *values):
    folders = [write_run(folder / f"run{number}", evaluation=evaluation(own)) for number, own in enumerate(values)]
    return compare([RunHistory.load(one) for one in folders])


def example(text="cup, 80 %", size=10):
    return Example(b"\xff" * size, [Answer("person, 90 %", False), Answer(text, True, b"\xfe" * size)])


def test_outside_the_most_frequent_group_those_are_shown_that_changed_most(tmp_path):
    changed = changed_categories(runs(tmp_path, FIRST, SECOND))
    assert (changed.run.name, changed.gained, changed.lost) == (
        "run1",
        [5],
        [4],
    )  # person is of the most frequent group


def test_of_several_runs_the_one_with_the_best_tail_is_compared_with_the_first(tmp_path):
    assert changed_categories(runs(tmp_path, FIRST, FIRST, SECOND)).run.name == "run2"


@pytest.mark.parametrize("values", [[FIRST], [FIRST, FIRST], [FIRST, [None] * 6]], ids=["one", "same", "unknown"])
def test_without_a_change_there_is_nothing_to_show(tmp_path, values):
    assert changed_categories(runs(tmp_path, *values)) is None


def test_a_category_shows_its_images_and_the_answers_of_each_run(tmp_path):
    comparison = runs(tmp_path, FIRST, SECOND)
    section = example_section(comparison, changed_categories(comparison), Examples({5: [example()], 4: [example()]}))
    text = " ".join(re.sub(r"<[^>]+>", " ", section).split())
    gained, lost = text.split("Lost most")
    assert "Gained most from run0 to run1 yoke 2 training samples; AP 20.0 → 50.0 % (+30.0)" in gained
    assert "run0 ✗ person, 90 % run1 ✓ cup, 80 %" in gained
    assert "unicycle 5 training samples; AP 30.0 → 10.0 % (−20.0)" in lost
    assert section.count("<img ") == 4


def test_pictures_never_take_more_than_the_page_can_hold(tmp_path):
    comparison = runs(tmp_path, FIRST, SECOND)
    large = [example(size=700_000) for _ in range(3)]
    section = example_section(comparison, changed_categories(comparison), Examples({5: large, 4: large}))
    assert len(section) < 4_000_000
    assert "yoke" in section


def test_a_page_says_why_it_has_no_images(tmp_path):
    folders = [run.history.folder for run in runs(tmp_path, FIRST, SECOND).runs]
    page = tmp_path / "page.html"
    write_report(folders, page, find_examples=lambda comparison, changed: Examples({}, "a <b>reason</b>"))
    assert "a &lt;b&gt;reason&lt;/b&gt;" in page.read_text()
    assert '<section id="examples" >' in page.read_text()
    write_report(folders, page)
    assert '<section id="examples" hidden>' in page.read_text()


def test_names_in_answers_are_escaped(tmp_path):
    comparison = runs(tmp_path, FIRST, SECOND)
    section = example_section(comparison, changed_categories(comparison), Examples({5: [example("</bdi><img src=x>")]}))
    assert "<img src=x>" not in section
