"""The results of a comparison in sentences and small tables."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from equigrad.analysis.comparison import ComparedRun, Comparison, evenly_chosen
from equigrad.analysis.markup import Html, element, join, listing, markup, table, users_name
from equigrad.analysis.rounding import number, percent, points
from equigrad.analysis.snapshots import Ints

STARVING = 0.5
"""A category that wins less than this share of its own training samples at the end is starving."""

STARVING_RATIO = 0.2
"""The same for runs of earlier versions, which did not record that, by the gradient ratio."""

_NUM_NAMED = 7  # starving categories in each list
_NUM_METRICS = 10  # columns of one table
_NUM_STEPS = 6
_WORSE_ECE = 0.02  # a clearly worse calibration
_LOWER_IS_BETTER = ("error", "ece")  # in the names of metrics: coloured the other way round


def run_label(comparison: Comparison, run: ComparedRun) -> Html:
    """The name of a run after a square in its colour."""
    index = comparison.runs.index(run)
    return join([element("span", class_=f"swatch run-{index % 6}", aria_hidden="true"), users_name(run.name)])


def lead(comparison: Comparison) -> Html:
    """One sentence for each run: what it changes compared with the first; of a run alone, what starves in it."""
    first, *others = comparison.runs
    if not others and comparison.described:
        text = _starving_shares(comparison, first)
        return listing([join([element("strong", run_label(comparison, first), ": "), text])], "lead")
    items = [_outcome(comparison, run) for run in others]
    return listing((item for item in items if item), "lead")


def result_tables(comparison: Comparison) -> Html:
    """Metrics of the whole test set, with differences from the first run."""
    chunks = result_chunks(comparison)
    if not chunks:
        return element("p", "None of the runs has been evaluated yet.")
    first = _result_table(comparison, chunks[0], "Results in %")
    more = [_result_table(comparison, chunk, "Further results in %") for chunk in chunks[1:]]
    return join([first, element("details", element("summary", "Further metrics"), *more) if more else ""])


def result_chunks(comparison: Comparison) -> list[list[str]]:
    """The metrics of the whole test set, as many at a time as fit into a table."""
    names = comparison.metric_names
    return [names[start : start + _NUM_METRICS] for start in range(0, len(names), _NUM_METRICS)]


def ratio_table(comparison: Comparison) -> Html:
    """Numbers of the ratio figure: medians of the groups and starving categories at the end."""
    groups = comparison.categories.group_names
    rows = [
        [run_label(comparison, run), *(number(value) for value in comparison.group_ratios(run)[-1]), _count(run)]
        for run in comparison.watched
    ]
    header = ["run", *(f"median, {group}" for group in groups), "starving categories"]
    return table("Gradient ratio at the end of each run", header, rows)


def training_table(comparison: Comparison) -> Html:
    """Numbers of the figure over training: medians of the groups at several steps."""
    rows = []
    for run in comparison.watched:
        assert run.statistics is not None
        ratios = comparison.group_ratios(run)
        reached = np.flatnonzero(np.isfinite(ratios).any(axis=1))
        for index in reached[evenly_chosen(len(reached), _NUM_STEPS)] if len(reached) else []:
            step = f"{run.statistics.steps[index]:,}"
            rows.append([run_label(comparison, run), step, *(number(value) for value in ratios[index])])
    return table("Median gradient ratio during training", ["run", "step", *comparison.categories.group_names], rows)


def describe_ratios(comparison: Comparison) -> str:
    """The figures in a sentence, for those who cannot see them."""
    groups = comparison.categories.group_names
    sentences = []
    for run in comparison.watched:
        medians = zip(groups, comparison.group_ratios(run)[-1], strict=True)
        sentences.append(f"{run.name}: " + ", ".join(f"{group} {number(value)}" for group, value in medians))
    return "Median gradient ratio at the end. " + "; ".join(sentences) + "."


def describe_won(comparison: Comparison) -> str:
    """The figures of samples won in a sentence, for those who cannot see them."""
    groups = comparison.categories.group_names
    sentences = []
    for run in comparison.runs:
        if run.won is not None:
            means = zip(groups, comparison.group_won(run)[-1], strict=True)
            sentences.append(f"{run.name}: " + ", ".join(f"{group} {percent(value)} %" for group, value in means))
    return "Mean share of their own samples that categories win at the end. " + "; ".join(sentences) + "."


def won_table(comparison: Comparison) -> Html:
    """Share of their own training samples that the categories of each group win, and how many categories starve."""
    rows = [
        [run_label(comparison, run), *(percent(value) for value in comparison.group_won(run)[-1]), _count(run)]
        for run in comparison.runs
        if run.won is not None
    ]
    header = ["run", *comparison.categories.group_names, "starving categories"]
    return table("Own training samples won at the end, mean of the categories in %", header, rows)


def starving(run: ComparedRun) -> NDArray[np.bool_]:
    """(C,) whether a category wins less than `STARVING` of its samples; False for one that had none."""
    below: NDArray[np.bool_]
    if run.won is not None:
        below = np.nan_to_num(run.won, nan=np.inf) < STARVING
        return below
    assert run.statistics is not None
    below = np.nan_to_num(run.statistics.ratio[-1], nan=np.inf) < STARVING_RATIO
    return below


def starving_lists(comparison: Comparison) -> Html:
    """For each run, which categories starve, with the names of the worst."""
    runs = comparison.described
    return join(_starving_section(comparison, run, runs[0] if run is not runs[0] else None) for run in runs)


def _outcome(comparison: Comparison, run: ComparedRun) -> Html | None:
    base = comparison.runs[0]
    facts = _changes(comparison, run, base)
    if run in comparison.described and base in comparison.described:
        facts.append(f"starving categories {_count(base)} → {_count(run)}")
    if not facts:
        return None
    label = element("strong", run_label(comparison, run), f" against {base.name}: ")
    return join([label, "; ".join(facts), ".", _calibration(comparison, run, base)])


def _calibration(comparison: Comparison, run: ComparedRun, base: ComparedRun) -> str:
    """A sentence if the rarest group gained while confidences became clearly worse."""
    rarest = comparison.rarest_metric_name()
    before, error = base.result.get("ECE"), run.result.get("ECE")
    has_gained = rarest is not None and (run.result.get(rarest) or 0) > (base.result.get(rarest) or 0)
    if not has_gained or before is None or error is None or error - before < _WORSE_ECE:
        return ""
    return f" Its confidences are worse: the calibration error (ECE) is {percent(error)} % against {percent(before)} %."


def _changes(comparison: Comparison, run: ComparedRun, base: ComparedRun) -> list[str]:
    """Changes of the headline metric and of the group that changed most."""
    changed = {
        name: abs(value - before)
        for name in comparison.group_metric_names()
        if (value := run.result.get(name)) is not None and (before := base.result.get(name)) is not None
    }
    headline, *groups = changed or [None]
    if headline is None:
        return []
    texts = {name: f"{name} {points(run.result[name], base.result[name])} points" for name in changed}
    largest = max(groups, key=lambda name: changed[name], default=None)
    is_shown = largest is not None and points(run.result[largest], base.result[largest]) != "0.0"
    return [texts[headline], *([f"the largest change is {texts[largest]}"] if largest and is_shown else [])]


def _result_table(comparison: Comparison, names: Sequence[str], caption: str) -> Html:
    base = comparison.runs[0].result
    rows: list[list[object]] = []
    for index, run in enumerate(comparison.runs):
        bases = base if index else {}
        rows.append([run_label(comparison, run), *(_result_cell(name, run.result, bases) for name in names)])
    if len(rows) > 1:
        caption += f"; small: percentage points against {comparison.runs[0].name}"
    return table(caption, ["run", *names], rows, "results")


def _result_cell(name: str, result: Mapping[str, float | None], base: Mapping[str, float | None]) -> Html:
    value = result.get(name)
    difference = points(value, base.get(name))
    if not difference:
        return markup(percent(value))
    sign = {"+": "up", "−": "down"}.get(difference[0], "")
    if any(word in name.lower() for word in _LOWER_IS_BETTER):
        sign = {"up": "down", "down": "up"}.get(sign, "")
    return join([percent(value), " ", element("span", difference, class_=f"difference {sign}")])


def _starving_section(comparison: Comparison, run: ComparedRun, base: ComparedRun | None) -> Html:
    mask = starving(run)
    title = element("h3", run_label(comparison, run))
    parts = [title, element("p", _starving_shares(comparison, run), _recovered(mask, base))]
    for heading, chosen in _named(run, mask).items() if mask.any() else ():
        described = [_described(comparison, run, index) for index in chosen.tolist()]
        parts += [element("p", heading), listing(described, "worst")]
    return element("div", *parts)


def _starving_shares(comparison: Comparison, run: ComparedRun) -> str:
    """How many categories starve, of all and of each group."""
    mask, categories = starving(run), comparison.categories
    if not mask.any():
        return "No category is starving."
    shares = [
        f"{np.count_nonzero(mask & (categories.groups == index)):,} of {size:,} {group}"
        for index, (group, size) in enumerate(categories.group_sizes().items())
    ]
    return f"{_count(run)} of {len(categories):,} categories are starving: {', '.join(shares)}."


def _recovered(mask: NDArray[np.bool_], base: ComparedRun | None) -> str:
    if base is None:
        return ""
    before = starving(base)
    num_before, gone, new = (np.count_nonzero(chosen) for chosen in (before, before & ~mask, mask & ~before))
    if not num_before:
        return f" None starves under {base.name}." if new else ""
    text = f" Of the {num_before:,} that starve under {base.name}, {gone:,} do not here"
    if not gone:
        text = f" All {num_before:,} that starve under {base.name} do here as well"
    return f"{text}; {new:,} {'does' if new == 1 else 'do'} only here." if new else f"{text}."


def _named(run: ComparedRun, mask: NDArray[np.bool_]) -> dict[str, Ints]:
    """Starving categories to list, by heading; all of them if they are few."""
    lowest, most_frequent = _lowest(run, mask), np.flatnonzero(mask)
    if len(lowest) <= 2 * _NUM_NAMED:
        return {"They are:": lowest}
    worst = "The fewest samples won:" if run.won is not None else "The lowest ratios:"
    return {worst: lowest[:_NUM_NAMED], "The most frequent:": most_frequent[:_NUM_NAMED]}


def _lowest(run: ComparedRun, mask: NDArray[np.bool_]) -> Ints:
    """Categories in the mask, fewest samples won first; among equal ones the more frequent first."""
    if run.won is not None:
        order = np.argsort(run.won, kind="stable")
    else:
        assert run.statistics is not None
        order = np.lexsort((-run.statistics.negative[-1], run.statistics.ratio[-1]))
    return order[mask[order]]


def _described(comparison: Comparison, run: ComparedRun, index: int) -> Html:
    categories = comparison.categories
    facts = []
    if categories.counts is not None:
        count = int(categories.counts[index])
        facts.append(f"{count:,} training sample{'' if count == 1 else 's'}")
    if run.won is not None:
        rounded, limit = round(100 * run.won[index]), round(100 * STARVING)
        won = limit - 1 if rounded == limit and run.won[index] < STARVING else rounded  # 49.6 % is below 50 %
        facts.append(f"wins {won}\u00a0% of its samples")
    elif run.statistics is not None:
        ratio = f"ratio {run.statistics.ratio[-1, index]:.2g}"
        facts.append(ratio if run.statistics.positive[-1, index] else "no positive gradient")
    if run.metric is not None and np.isfinite(run.metric[index]):
        facts.append(f"{comparison.metric_name} {percent(run.metric[index])}\u00a0%")
    return join([element("strong", users_name(categories.names[index])), f": {', '.join(facts)}"])


def _count(run: ComparedRun) -> str:
    return f"{np.count_nonzero(starving(run)):,}"
