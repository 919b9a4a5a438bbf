"""Several runs of each method, distinguished by `_SEED` at the end of their names: mean and spread as a Markdown table.

    equigrad train glyph_objects:one_stage --set method=fl --set training.seed=0 --run runs/fl_0
    equigrad train glyph_objects:one_stage --set method=fl --set training.seed=1 --run runs/fl_1
    python examples/seed_table.py runs/fl_0 runs/fl_1 --metrics AP APr APc APf --figure ratio.png

The number after ± is half the difference between the best and the worst seed, which with two seeds says little. The
columns after the metrics are the median gradient ratio of each group's categories at the end of training, if the loss
keeps statistics. The figure shows the ratio of every category during the first run of each method.

    python examples/seed_table.py runs/fl_0 runs/fl_1 runs/efl_0 runs/efl_1 --against fl

adds differences from a method in points, paired over categories and seeds, with intervals of 95 % (bootstrap of both).
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from equigrad.analysis.compared_methods import ComparedMethods
from equigrad.analysis.compared_tables import as_markdown, difference_table
from equigrad.analysis.history import RunHistory
from equigrad.analysis.plots import plot_ratio_over_training


def method_of(run: RunHistory) -> str:
    """The name of the folder without the seed."""
    return re.sub(r"_\d+$", "", run.name)


def metric(run: RunHistory, name: str) -> float:
    """Per cent."""
    result = {} if run.evaluation is None else run.evaluation.result
    value = result.get(name)
    if value is None:
        raise ValueError(f"{run.folder}: no metric {name}; the run has {', '.join(result) or 'no evaluation'}")
    return 100 * value


def group_ratios(run: RunHistory) -> dict[str, float]:
    """Median of the last G_j over the categories of each group; empty if the loss keeps no statistics."""
    if not run.statistics or run.evaluation is None:
        return {}
    ratios = next(iter(run.statistics.values())).ratio[-1]
    groups = np.array([category.group or "all" for category in run.evaluation.categories])
    return {group: float(np.nanmedian(ratios[groups == group])) for group in dict.fromkeys(groups.tolist())}


def mean_and_spread(values: Sequence[float], digits: int) -> str:
    """`mean ± half the range`; one run has no spread."""
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {(max(values) - min(values)) / 2:.{digits}f}"


def table(runs: Sequence[RunHistory], metrics: Sequence[str]) -> str:
    """A row for each method, in the order given."""
    methods: dict[str, list[RunHistory]] = {}
    for run in runs:
        methods.setdefault(method_of(run), []).append(run)
    ratios = {run.name: group_ratios(run) for run in runs}
    groups = sorted({group for found in ratios.values() for group in found}, key=_rarest_last)
    lines = [["method", *metrics, *(f"G {group}" for group in groups)]]
    lines.append(["---"] * len(lines[0]))
    for method, members in methods.items():
        cells = [mean_and_spread([metric(run, name) for run in members], 1) for name in metrics]
        for group in groups:
            found = [ratios[run.name][group] for run in members if group in ratios[run.name]]
            cells.append(mean_and_spread(found, 2) if found else "–")
        lines.append([method, *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def differences(runs: Sequence[RunHistory], against: str) -> str:
    """Paired differences of the methods from one of them, in every column of the task."""
    folders: dict[str, list[Path]] = {against: []}
    for run in runs:
        folders.setdefault(method_of(run), []).append(run.folder)
    numbers = {len(seeds) for seeds in folders.values()}
    if len(numbers) != 1 or len(folders) < 2:
        found = ", ".join(f"{method} {len(seeds)}" for method, seeds in folders.items())
        raise ValueError(f"--against {against}: expected two methods or more with as many seeds each, got {found}")
    return as_markdown(difference_table(ComparedMethods.load(_task(runs[0]), folders)))


def _task(run: RunHistory) -> str:
    metrics = set() if run.evaluation is None else set(run.evaluation.categories[0].metrics)
    by_metric = {"IoU": "semantic_segmentation", "AP": "detection", "accuracy": "classification"}
    return next(task for metric, task in by_metric.items() if metric in metrics)


def _rarest_last(group: str) -> int:
    order = ("many", "frequent", "head", "medium", "common", "few", "rare", "tail")
    return order.index(group) if group in order else len(order)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--metrics", nargs="+", default=["AP", "APr", "APc", "APf"], metavar="NAME")
    parser.add_argument("--against", metavar="METHOD", help="add paired differences from this method")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="PNG of the ratios over training")
    parsed = parser.parse_args(arguments)
    try:
        runs = [RunHistory.load(folder) for folder in parsed.runs]
        print(table(runs, parsed.metrics))
        if parsed.against:
            print(f"\n{differences(runs, parsed.against)}")
        if parsed.figure:
            firsts = {method_of(run): run for run in reversed(runs)}
            plot_ratio_over_training([run for run in runs if run is firsts[method_of(run)]], parsed.figure)
    except (ValueError, OSError) as error:
        print(f"seed_table: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
