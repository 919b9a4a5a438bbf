"""Several runs with their categories in one common order, most frequent first."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from equigrad.analysis.evaluation_file import CategoryResult
from equigrad.analysis.history import RunHistory
from equigrad.analysis.snapshots import Floats, Ints, RecognitionOverTime, StatisticsOverTime
from equigrad.run_files import EVALUATION, STATISTICS

# Okabe and Ito's colours, distinct for every kind of colour vision; report/page.css has the same, lighter in dark mode.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")


@dataclass(frozen=True, eq=False)
class Categories:
    """The categories of a comparison, most frequent first.

    Args:
        names: one for each category.
        counts: (C,) training samples; None if no run was evaluated. The order is then that of the positive gradient.
        group_names: head first.
        groups: (C,) indices into `group_names`.
        labels: (C,) the output of the model that stands for each category.
    """

    names: tuple[str, ...]
    counts: Ints | None
    group_names: tuple[str, ...]
    groups: Ints
    labels: Ints

    def __len__(self) -> int:
        return len(self.names)

    def group_sizes(self) -> dict[str, int]:
        """Number of categories in each group."""
        sizes = np.bincount(self.groups, minlength=len(self.group_names)).tolist()
        return dict(zip(self.group_names, sizes, strict=True))


@dataclass(frozen=True, eq=False)
class ComparedRun:
    """A run with its categories in the common order.

    Args:
        name: unique among the compared runs.
        history: the files of the run.
        path: module path of the statistics shown.
        statistics: with columns in the common order; None if the loss keeps none.
        metric: (C,) metric of each category, NaN where unknown; None if the run was not evaluated.
        recognition: the samples that the categories win, in the common order; None in a run of an earlier version.
    """

    name: str
    history: RunHistory
    path: str
    statistics: StatisticsOverTime | None
    metric: Floats | None
    recognition: RecognitionOverTime | None = None

    @property
    def won(self) -> Floats | None:
        """(C,) share of its own training samples that a category wins at the end, NaN if it had none."""
        return None if self.recognition is None else self.recognition.share[-1]

    @property
    def result(self) -> dict[str, float | None]:
        """Metrics of the whole test set."""
        return dict(self.history.evaluation.result) if self.history.evaluation else {}


@dataclass(frozen=True, eq=False)
class Comparison:
    """Runs over the same categories; `metric_name` is the metric of single categories, None if no run was evaluated."""

    runs: tuple[ComparedRun, ...]
    categories: Categories
    metric_name: str | None

    @property
    def watched(self) -> list[ComparedRun]:
        """Runs with gradient statistics."""
        return [run for run in self.runs if run.statistics is not None]

    @property
    def described(self) -> list[ComparedRun]:
        """Runs of which it is known which categories starve."""
        return [run for run in self.runs if run.won is not None or run.statistics is not None]

    def group_won(self, run: ComparedRun) -> Floats:
        """(T, G) mean share of samples won in each group at each snapshot; NaN where no category had one."""
        assert run.recognition is not None
        share = run.recognition.share
        members = [self.categories.groups == group for group in range(len(self.categories.group_names))]
        return np.stack([nan_mean(share[:, mask], axis=1) for mask in members], axis=1)

    @property
    def metric_names(self) -> list[str]:
        """Metrics of the whole test set that any run has, headline first."""
        return list(dict.fromkeys(name for run in self.runs for name in run.result))

    def group_metric_names(self) -> list[str]:
        """The headline metric and those of the frequency groups; the first six if no name belongs to a group."""
        names = self.metric_names
        found = [_metric_of_group(group, names, self.categories.group_names) for group in self.categories.group_names]
        chosen = [*names[:1], *(name for name in found if name is not None)]
        return chosen if any(found) else names[:6]

    def rarest_metric_name(self) -> str | None:
        """That of the group with the rarest categories; None if the runs have no such metric."""
        groups = self.categories.group_names
        return _metric_of_group(groups[-1], self.metric_names, groups) if groups else None

    def group_ratios(self, run: ComparedRun) -> Floats:
        """(T, G) median ratio of each group at each snapshot; NaN before the group received any gradient."""
        assert run.statistics is not None
        ratio = run.statistics.ratio
        members = [self.categories.groups == group for group in range(len(self.categories.group_names))]
        return np.stack([nan_median(ratio[:, mask], axis=1) for mask in members], axis=1)


def compare(runs: Sequence[RunHistory]) -> Comparison:
    """Bring the categories of all runs into one order.

    Counts and groups are taken from the first evaluated run.

    Args:
        runs: their models must have the same categories; of models with several statistics the first are shown.

    Raises:
        ValueError: there is nothing to compare, or the categories differ.
    """
    if not runs:
        raise ValueError("expected at least one run")
    chosen = [next(iter(run.statistics), "") for run in runs]
    listed = _listed_categories(runs)
    if not listed and not any(chosen):
        raise ValueError(f"{runs[0].folder}: no run has {STATISTICS} or the categories of {EVALUATION}")
    first = next((run.statistics[path] for run, path in zip(runs, chosen, strict=True) if path), None)
    _check_sizes(runs, chosen, len(listed) or (first.positive.shape[1] if first else 0))
    categories = _sort_listed(listed) if listed else _sort_by_gradient(first)
    order = categories.labels
    metric_name = next((name for category in listed for name in category.metrics), None)
    names = _different_names([run.name for run in runs])
    compared = (
        ComparedRun(
            name, run, path, _reordered(run, path, order), _metric(run, metric_name, order), _won(run, path, order)
        )
        for name, run, path in zip(names, runs, chosen, strict=True)
    )
    return Comparison(tuple(compared), categories, metric_name)


def nan_median(values: Floats, axis: int) -> Floats:
    """Median without NaN; NaN, without a warning, if all values are NaN."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        median: Floats = np.nanmedian(values, axis=axis)
    return median


def nan_mean(values: Floats, axis: int) -> Floats:
    """Mean without NaN; NaN, without a warning, if all values are NaN."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        mean: Floats = np.nanmean(values, axis=axis)
    return mean


def smoothed(values: Floats) -> Floats:
    """Running median, then running mean, each over a 40th of the categories and fewer at both ends.

    The median removes single outliers. The mean smooths its jumps where neighbours have two kinds of values.
    """
    half = len(values) // 80
    medians = nan_median(_neighbourhoods(values, half), axis=1)
    neighbours = _neighbourhoods(medians, half)
    known = np.isfinite(neighbours)
    num_known = known.sum(axis=1)
    sums = np.where(known, neighbours, 0).sum(axis=1)
    means: Floats = np.divide(
        sums, num_known, out=np.full(len(values), np.nan), where=(num_known > 0) & np.isfinite(medians)
    )
    return means


def evenly_chosen(count: int, limit: int) -> Ints:
    """At most `limit` of the indices 0 … count-1, evenly spaced and always with the last one."""
    return np.unique(np.rint(np.linspace(count - 1, 0, min(count, limit))).astype(np.int64))


def _neighbourhoods(values: Floats, half: int) -> Floats:
    """Values around each position, (C, 2 * half + 1); NaN beyond both ends."""
    padded = np.pad(values, half, constant_values=np.nan)
    return np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)


def _listed_categories(runs: Sequence[RunHistory]) -> tuple[CategoryResult, ...]:
    """Categories of the first evaluated run; the others must have the same."""
    evaluated = [run for run in runs if run.evaluation and run.evaluation.categories]
    lists = [run.evaluation.categories for run in evaluated if run.evaluation]
    for run, categories in zip(evaluated[1:], lists[1:], strict=True):
        names = [category.name for category in categories]
        if names != [category.name for category in lists[0]]:
            raise ValueError(f"{run.folder}: its categories are not those of {evaluated[0].folder}")
    return lists[0] if lists else ()


def _check_sizes(runs: Sequence[RunHistory], paths: Sequence[str], size: int) -> None:
    for run, path in zip(runs, paths, strict=True):
        if path and run.statistics[path].positive.shape[1] != size:
            raise ValueError(
                f"{run.folder}: its statistics have {run.statistics[path].positive.shape[1]} categories, "
                f"those of the other runs {size}"
            )


def _sort_listed(listed: Sequence[CategoryResult]) -> Categories:
    counts = np.array([category.count for category in listed], dtype=np.int64)
    order = np.argsort(-counts, kind="stable")
    groups = [str(category.group) for category in listed]
    sizes = {group: np.mean([c.count for c in listed if c.group == group]) for group in dict.fromkeys(groups)}
    group_names = tuple(sorted(sizes, key=lambda group: -sizes[group]))
    indices = np.array([group_names.index(groups[index]) for index in order], dtype=np.int64)
    names = tuple(listed[index].name for index in order)
    return Categories(names, counts[order], group_names, indices, order)


def _sort_by_gradient(statistics: StatisticsOverTime | None) -> Categories:
    """Without counts: thirds by positive gradient, which grows with the count."""
    assert statistics is not None
    order = np.argsort(-statistics.positive[-1], kind="stable")
    names = tuple(f"category {index}" for index in order)
    groups = np.arange(len(order)) * 3 // len(order)
    return Categories(names, None, ("head third", "middle third", "tail third"), groups, order)


def _reordered(run: RunHistory, path: str, order: Ints) -> StatisticsOverTime | None:
    if not path:
        return None
    statistics = run.statistics[path]
    return StatisticsOverTime(statistics.steps, statistics.positive[:, order], statistics.negative[:, order])


def _won(run: RunHistory, path: str, order: Ints) -> RecognitionOverTime | None:
    """Of the loss whose statistics are shown, else of the first."""
    found = [loss for loss in run.recognition if not path or path.startswith(f"{loss}.")] or list(run.recognition)
    if not found:
        return None
    recognition = run.recognition[found[0]]
    return RecognitionOverTime(recognition.steps, recognition.seen[:, order], recognition.share[:, order])


def _metric(run: RunHistory, name: str | None, order: Ints) -> Floats | None:
    if run.evaluation is None or not run.evaluation.categories or name is None:
        return None
    values = [category.metrics.get(name) for category in run.evaluation.categories]
    return np.array([np.nan if value is None else value for value in values])[order]


def _different_names(names: Sequence[str]) -> list[str]:
    """Number runs whose folders have the same name."""
    found: list[str] = []
    for name in names:
        number = 2
        unique = name
        while unique in found:
            unique, number = f"{name} ({number})", number + 1
        found.append(unique)
    return found


def _metric_of_group(group: str, metrics: Sequence[str], groups: Sequence[str]) -> str | None:
    """`Few` or `mIoU_few` for few, `APr` for rare, `mIoU3` for the third: see `_short_endings`."""
    for metric in metrics:
        if metric.lower().endswith(group.lower()):
            return metric
    names = [f"{metrics[0]}{ending}" for ending in _short_endings(group, groups)] if metrics else []
    return next((name for name in names if name in metrics), None)


def _short_endings(group: str, groups: Sequence[str]) -> list[str]:
    """The initial, unless two groups share it (APm does not mean medium), and the number of the group, head first."""
    initials = [name[:1] for name in groups]
    initial = [group[:1]] if initials.count(group[:1]) == 1 else []
    return [*initial, str(groups.index(group) + 1)]
