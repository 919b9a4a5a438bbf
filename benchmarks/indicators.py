"""Which number of a training run tells that a category is not learnt? Its rank correlation with what comes out.

    python benchmarks/indicators.py --caltech DATA/caltech101
    python benchmarks/indicators.py --omniglot characters --half-lives --data Omniglot "glyphs, seed 1"

Runs CE, Softmax-EQL, BCE and Sigmoid-EQL on glyphs (the demo), Caltech-101-LT on frozen features, features with the
counts of LVIS v1, and detection, about half an hour on one idle core, and keeps what each run gave in `indicators/`.
For each candidate it prints Spearman's correlation with the test accuracy (or AP) of the categories:

    within   over the categories of a run, mean of the four losses: the training count is hard to beat here
    across   over the categories of all four runs together: a threshold must mean the same for every loss
    change   of its change with the change of accuracy, from CE to Softmax-EQL and from BCE to Sigmoid-EQL, mean of both

`--half-lives` prints the share of samples won with other half-lives in place of the other candidates.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from watched_runs import WatchedRun, data_sets

Floats = NDArray[np.float64]
METHODS = ("ce", "softmax_eql", "bce", "sigmoid_eql")
PAIRS = (("ce", "softmax_eql"), ("bce", "sigmoid_eql"))
HALF_LIFE = 100.0
HALF_LIVES = (10.0, 20.0, 50.0, 200.0, 500.0)
COLUMNS = ("within", "across", "change")
_OTHER = "samples won, half-life "


def candidates(run: WatchedRun) -> dict[str, Floats]:
    """(C,) numbers by name; higher is to mean better learnt, NaN that the category was not seen."""
    num_steps = len(run.steps["seen"])
    whole, first, last = slice(None), slice(max(num_steps // 10, 1)), slice(num_steps * 4 // 5, None)

    def total(name: str, steps: slice) -> Floats:
        sums: Floats = run.steps[name][steps].sum(0)
        return sums

    def mean(name: str, steps: slice) -> Floats:
        return over(total(name, steps), total("seen", steps))

    def ratio(steps: slice) -> Floats:
        return over(total("pos", steps), total("neg", steps))

    cumulative = run.steps["pos"].cumsum(0) >= 0.5 * run.steps["neg"].cumsum(0)
    reached = np.where(cumulative.any(0), cumulative.argmax(0), num_steps)
    epoch = slice(run.steps_per_epoch)
    return {
        "training count": run.counts,
        "gradient ratio, whole training": ratio(whole),
        "gradient ratio, first tenth": ratio(first),
        "gradient ratio, last fifth": ratio(last),
        "steps until the ratio reached 0.5 (fewer)": -reached.astype(np.float64),
        "positive gradient, whole training": total("pos", whole),
        "positive gradient, last fifth": total("pos", last),
        "positive gradient of a sample, last fifth (less)": -mean("pos", last),
        "negative gradient for each own sample (less)": -mean("neg", whole),
        "norm of its weights": run.weight_norms,
        "own probability, last fifth": mean("own", last),
        "own probability, recent samples": recent(run, "own"),
        "margin of its logit, recent samples": recent(run, "margin"),
        "samples won, first epoch": mean("win", epoch),
        "samples won, whole training": mean("win", whole),
        "samples won, last fifth": mean("win", last),
        "samples won, recent samples": recent(run, "win"),
        **{f"{_OTHER}{half_life:.0f}": recent(run, "win", half_life) for half_life in HALF_LIVES},
    }


def recent(run: WatchedRun, name: str, half_life: float = HALF_LIFE) -> Floats:
    """Mean over the samples of a category, of which an earlier one counts half after so many more."""
    seen, sums = np.zeros_like(run.counts), np.zeros_like(run.counts)
    for number, value in zip(run.steps["seen"], run.steps[name], strict=True):
        kept = 0.5 ** (number / half_life)
        seen, sums = seen * kept + number, sums * kept + value
    return over(sums, seen)


def over(values: Floats, numbers: Floats) -> Floats:
    """Their quotient, NaN where there is nothing to divide by."""
    quotient: Floats = np.divide(values, numbers, out=np.full_like(values, np.nan), where=numbers > 0)
    return quotient


def spearman(first: Floats, second: Floats) -> float:
    """Rank correlation, equal values with their mean rank; nan if either is constant."""
    known = np.isfinite(second)
    worst = np.nanmin(first) if np.isfinite(first).any() else 0.0
    ranks = np.stack([_ranks(np.where(np.isfinite(first), first, worst)[known]), _ranks(second[known])])
    return float("nan") if (ranks.std(1) == 0).any() else float(np.corrcoef(ranks)[0, 1])


def _ranks(values: Floats) -> Floats:
    _, inverse, sizes = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(sizes) - (sizes - 1) / 2)[inverse]
    return ranks


def correlations(runs: Mapping[str, Mapping[str, Floats]], name: str) -> list[float]:
    """Within, across and change, of one candidate on one data set."""
    within = [spearman(run[name], run["accuracy"]) for run in runs.values()]
    across = spearman(*(np.concatenate([run[key] for run in runs.values()]) for key in (name, "accuracy")))
    changes = [
        spearman(*(runs[better][key] - runs[plain][key] for key in (name, "accuracy"))) for plain, better in PAIRS
    ]
    return [float(np.nanmean(within)), across, float(np.mean(changes))]


def measured(data: str, method: str, arguments: argparse.Namespace) -> dict[str, Floats]:
    """Candidates and accuracy of a run, from the folder if it has them."""
    file = arguments.folder / f"{data.replace(' ', '_')}_{method}.npz"
    if not file.exists():
        run = data_sets(arguments.caltech, arguments.omniglot, arguments.folder)[data](method)
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, **{"accuracy": run.accuracy, **candidates(run)})  # type: ignore[arg-type]
    return dict(np.load(file))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--caltech", type=Path, metavar="FOLDER", help="train_lt100.txt, test.txt and images.zip")
    parser.add_argument("--omniglot", type=Path, metavar="FOLDER", help="a long-tailed `train` and `test`")
    parser.add_argument("--half-lives", action="store_true", help="compare half-lives alone")
    parser.add_argument("--folder", type=Path, default=Path("indicators"), help="for what the runs gave")
    parser.add_argument("--data", nargs="+", metavar="NAME", help="only these data sets")
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS, help="run these alone, no table")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    photographs = [] if arguments.caltech is None else ["Caltech-101-LT"]
    names = arguments.data or ["glyphs", *photographs, "LVIS counts", "detection"]
    found = {data: {method: measured(data, method, arguments) for method in arguments.methods} for data in names}
    if set(arguments.methods) != set(METHODS):
        return
    first = next(iter(found.values()))["ce"]
    table = {
        name: [value for runs in found.values() for value in correlations(runs, name)]
        for name in first
        if name != "accuracy" and (name.startswith("samples won") or not arguments.half_lives)
        if arguments.half_lives or not name.startswith(_OTHER)
    }
    print("| candidate | " + " | ".join(f"{data}: {column}" for data in names for column in COLUMNS) + " | mean |")
    print("| --- |" + " --- |" * (3 * len(names) + 1))
    for name, values in sorted(table.items(), key=lambda item: -float(np.mean(np.nan_to_num(item[1])))):
        cells = " | ".join("–" if np.isnan(value) else f"{value:.2f}" for value in values)
        print(f"| {name} | {cells} | {np.mean(np.nan_to_num(values)):.2f} |")


if __name__ == "__main__":
    main()
