"""Test images of the rarer categories that changed most, with the predictions of each run.

The page only shows them: reading data sets is left to whoever calls, because this package knows none.
"""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equigrad.analysis.comparison import ComparedRun, Comparison
from equigrad.analysis.findings import run_label
from equigrad.analysis.markup import Html, element, join, users_name
from equigrad.analysis.rounding import percent, points

NUM_GAINED, NUM_LOST = 4, 2  # categories
NUM_IMAGES = 3  # of each
_MAX_BYTES = 2_500_000  # of all pictures: the page stays below five megabytes


@dataclass(frozen=True)
class Answer:
    """What a run said about an image."""

    text: str
    is_right: bool
    picture: bytes | None = None  # JPEG with objects or regions drawn


@dataclass(frozen=True)
class Example:
    """A test image of a category."""

    picture: bytes  # JPEG, with what is true drawn
    answers: Sequence[Answer]  # of each run


@dataclass(frozen=True)
class Examples:
    """Images by category, as an index of the comparison; a note says what is drawn, or why there are none."""

    of_category: dict[int, list[Example]]
    note: str = ""


@dataclass(frozen=True)
class ChangedCategories:
    """Categories outside the most frequent group whose metric changed most from the first run to another one."""

    run: ComparedRun  # the one that did best in the tail
    gained: list[int]  # most first
    lost: list[int]


FindExamples = Callable[[Comparison, ChangedCategories], Examples]


def changed_categories(comparison: Comparison) -> ChangedCategories | None:
    """The categories to show; None where fewer than two runs were evaluated, or nothing changed."""
    first, *others = comparison.runs
    evaluated = [run for run in others if run.metric is not None and first.metric is not None]
    tail = _tail(comparison)
    if not evaluated or not tail.any():
        return None
    best = max(evaluated, key=lambda run: float(np.nan_to_num(run.metric[tail]).mean()))  # type: ignore[index]
    assert best.metric is not None
    assert first.metric is not None
    change = np.where(tail, np.nan_to_num(best.metric - first.metric), 0)
    order = np.argsort(-change, kind="stable")
    gained = [int(index) for index in order[:NUM_GAINED] if change[index] > 0]
    lost = [int(index) for index in order[::-1][:NUM_LOST] if change[index] < 0]
    return ChangedCategories(best, gained, lost) if gained or lost else None


def _tail(comparison: Comparison) -> NDArray[np.bool_]:
    """(C,) categories outside the most frequent group whose metric all evaluated runs know."""
    metrics = [run.metric for run in comparison.runs if run.metric is not None]
    if not metrics:
        return np.zeros(len(comparison.categories), dtype=np.bool_)
    groups = comparison.categories.groups
    tail: NDArray[np.bool_] = np.isfinite(np.stack(metrics)).all(axis=0) & (groups > 0 if groups.any() else groups == 0)
    return tail


def example_section(comparison: Comparison, changed: ChangedCategories | None, examples: Examples) -> Html:
    """The images under headings of gains and losses; the note if there are none."""
    note = element("p", examples.note) if examples.note else Html("")
    if changed is None or not examples.of_category:
        return note
    against = f"from {comparison.runs[0].name} to {changed.run.name}"
    shown = _affordable(examples, [*changed.gained, *changed.lost])
    parts = [note]
    for heading, chosen in ((f"Gained most {against}", changed.gained), (f"Lost most {against}", changed.lost)):
        blocks = [_block(comparison, changed, index, shown[index]) for index in chosen if shown.get(index)]
        if blocks:
            parts += [element("h3", heading), element("div", *blocks, class_="example-columns")]
    return join(parts)


def _affordable(examples: Examples, order: Sequence[int]) -> dict[int, list[Example]]:
    """As many images as fit on the page, in turn: the first of every category, then the second, …"""
    shown: dict[int, list[Example]] = {index: [] for index in order}
    total = 0
    for number in range(NUM_IMAGES):
        for index in order:
            for example in examples.of_category.get(index, [])[number : number + 1]:
                total += len(example.picture) + sum(len(answer.picture or b"") for answer in example.answers)
                if total <= _MAX_BYTES:
                    shown[index].append(example)
    return shown


def _block(comparison: Comparison, changed: ChangedCategories, index: int, examples: Sequence[Example]) -> Html:
    first, other, categories = comparison.runs[0], changed.run, comparison.categories
    assert first.metric is not None
    assert other.metric is not None
    change = f"{comparison.metric_name} {percent(first.metric[index])} → {percent(other.metric[index])} %"
    count = f"{categories.counts[index]:,} training samples; " if categories.counts is not None else ""
    facts = f"{count}{change} ({points(other.metric[index], first.metric[index])})"
    heading = element("h4", users_name(categories.names[index]), " ", element("small", facts))
    return element("div", heading, _grid(comparison, categories.names[index], examples), class_="example-category")


def _grid(comparison: Comparison, name: str, examples: Sequence[Example]) -> Html:
    """A column for each image: the image, and below it what each run said."""
    pictures = [element("td", _image(example.picture, f"test image of {name}")) for example in examples]
    rows = [element("tr", element("th", "test image", scope="row"), *pictures)]
    for number, run in enumerate(comparison.runs):
        cells = [_answer(run, example.answers[number]) for example in examples]
        rows.append(element("tr", element("th", run_label(comparison, run), scope="row"), *cells))
    return element("div", element("table", element("tbody", *rows), class_="examples"), class_="table")


def _answer(run: ComparedRun, answer: Answer) -> Html:
    picture = _image(answer.picture, f"what {run.name} said") if answer.picture else ""
    mark = "✓\u00a0" if answer.is_right else "✗\u00a0"
    return element("td", picture, mark, users_name(answer.text), class_="right" if answer.is_right else "wrong")


def _image(picture: bytes, alt: str) -> Html:
    source = f"data:image/jpeg;base64,{base64.b64encode(picture).decode()}"
    return Html(element("img", src=source, alt=alt).removesuffix("</img>"))
