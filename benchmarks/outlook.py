"""Is the doctor right about "will it help"? Its forecast beside what was measured, on many training sets.

    python benchmarks/outlook.py --caltech DATA/caltech101 --folders characters1 characters2 objects leaves
    python benchmarks/outlook.py --caltech DATA/caltech101 --folders leaves --draw half
    python benchmarks/outlook.py --folders objects regions signs --draw pareto
    python benchmarks/outlook.py --draw networks
    python benchmarks/outlook.py --table docs/evidence/outlook.csv

Training sets are drawn from photographs (Caltech-101) and from folders with `train` and `test` (docs/doctor.md has the
commands that make them): `grid` draws exponential profiles of several sizes and imbalance factors, `half` others with
half of the categories, `pareto` Pareto profiles. CE and Softmax-EQL with its defaults are trained with three seeds on
each: a last layer on frozen features; with `networks` the whole network of the demo, on glyphs. The gain is the
difference in category mean, with its 95 % interval. Rows are kept as they finish.
"""

import argparse
import csv
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equigrad.analysis.doctor.outlook import POINTS_PER_TENFOLD, SPREAD, Record, forecast
from equigrad.analysis.doctor.tail import Tail
from equigrad.analysis.evaluation_file import Evaluation
from equigrad.analysis.paired_differences import Floats, Quantity, paired_differences
from equigrad.cli import main as equigrad
from equigrad.data.feature_cache import FeatureDataset, cache_features
from equigrad.data.frequency import exponential_profile
from equigrad.data.images.dataset import ImageDataset
from equigrad.data.images.lists import ImageList
from equigrad.data.long_tail import long_tailed
from equigrad.evaluation.classification import ClassificationEvaluator
from equigrad.recipes.own_data import classification
from equigrad.tasks.classification.data import OwnImages
from equigrad.tasks.classification.linear_probe import predict
from equigrad.tasks.comparison.last_layer import LastLayer, train_last_layer

METHODS = ("ce", "softmax_eql")
SEEDS = range(3)
GRID = [(top, factor) for top in (5, 15, 60, 240) for factor in (1, 3, 10, 30, 100) if factor <= top]
HALF = ((20, 6), (20, 20), (100, 6), (100, 20), (100, 50))
PARETO = ((12, 4), (12, 12), (30, 10), (30, 30), (120, 8), (120, 40), (120, 120))
NETWORKS = ((60, 3), (60, 10), (60, 30), (240, 3), (240, 10))
"""Training images of the most frequent category, and imbalance factors."""


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """One of many that are drawn from the same images."""

    pool: str
    name: str
    train: FeatureDataset
    test: FeatureDataset


def pooled(source: OwnImages, folder: Path, size: int = 128) -> tuple[ImageList, FeatureDataset, FeatureDataset]:
    """Training images, their features and those of the test set."""
    recipe = classification(image_size=size)
    train, test = replace(recipe.data, train=source.train, test=source.test, root=source.root).load()  # type: ignore[call-arg]
    transform = recipe.data.evaluation_transform()
    backbone = recipe.backbone.build()
    whole, tested = (cache_features(backbone, ImageDataset(part.images, transform), folder) for part in (train, test))
    return train.images, whole, tested


class Case(NamedTuple):
    """What was measured on one training set."""

    kind: str  # "fitted": the forecast was fitted to it; "new": measured afterwards; "network": not a last layer alone
    pool: str
    training_set: str
    imbalance: float
    few: float
    gain: float  # points
    margin: float | None

    @property
    def source(self) -> str:
        """Where its images come from: both sets of characters have the Greek and the Latin ones."""
        return "characters" if self.pool.startswith("characters") else self.pool

    @property
    def tail(self) -> float:
        """What the forecast is proportional to."""
        return forecast(self.imbalance, self.few, 1.0).points


FORMS: dict[str, Callable[[Case], float]] = {
    "the forecast: log10(imbalance) * few ** 0.5": lambda case: case.tail,
    "1": lambda case: 1.0,
    "log10(imbalance)": lambda case: math.log10(case.imbalance),
    "log10(imbalance) * few": lambda case: math.log10(case.imbalance) * case.few,
    "log10(imbalance) * min(few, 0.4)": lambda case: math.log10(case.imbalance) * min(case.few, 0.4),
    "log10(imbalance) ** 2 * few ** 0.5": lambda case: math.log10(case.imbalance) * case.tail,
    "imbalance >= 12 and few >= 0.22": lambda case: float(case.imbalance >= 12 and case.few >= 0.22),
}
"""What a gain could be proportional to."""


def grid(pool: str, images: ImageList, whole: FeatureDataset, tested: FeatureDataset) -> Iterator[TrainingSet]:
    """As it is, then with every profile that the pool has enough images for."""
    yield TrainingSet(pool, "as it is", whole, tested)
    largest = np.sort(images.category_counts)
    for top, factor in GRID:
        profile = exponential_profile(len(largest), top, factor)
        if top <= largest[-1] and (np.sort(profile)[: len(largest) // 2] <= largest[: len(largest) // 2]).all():
            kept = _kept(images, long_tailed(images, factor, max_count=top))
            yield TrainingSet(pool, f"{top} to {top / factor:.0f} images", whole.subset(kept), tested)


def half(pool: str, images: ImageList, whole: FeatureDataset, tested: FeatureDataset) -> Iterator[TrainingSet]:
    """Of a random half of the categories each; one with fewer images than the profile asks for keeps all."""
    for seed, (top, factor) in enumerate(HALF, start=1):
        if top <= images.category_counts.max():
            chosen = np.sort(np.random.default_rng(seed).permutation(len(images.class_names))[::2])
            kept = _kept(images, long_tailed(images, factor, max_count=top, order="random", seed=seed))
            name = f"half of it, {top} to {top / factor:.0f} images"
            yield TrainingSet(pool, name, _only(whole.subset(kept), chosen), _only(tested, chosen))


def pareto(pool: str, images: ImageList, whole: FeatureDataset, tested: FeatureDataset) -> Iterator[TrainingSet]:
    """Pareto profiles in a random order of the categories."""
    for seed, (top, factor) in enumerate(PARETO, start=1):
        if top <= images.category_counts.max():
            drawn = long_tailed(images, factor, profile="pareto", max_count=top, order="random", seed=seed)
            name = f"Pareto, {top} to {top / factor:.0f} images"
            yield TrainingSet(pool, name, whole.subset(_kept(images, drawn)), tested)


DRAWS = {"grid": grid, "half": half, "pareto": pareto}


def _kept(images: ImageList, subset: ImageList) -> Tensor:
    place = {path: index for index, path in enumerate(images.paths)}
    return torch.tensor([place[path] for path in subset.paths])


def _only(data: FeatureDataset, categories: NDArray[np.int64]) -> FeatureDataset:
    """The samples of some categories, which get new labels."""
    labels = torch.full((data.num_classes,), -1)
    labels[torch.as_tensor(categories)] = torch.arange(len(categories))
    found = labels[data.labels]
    names = [data.class_names[category] for category in categories]
    return FeatureDataset(data.features[found >= 0], found[found >= 0], class_names=names)


def last_layers(drawn: TrainingSet) -> Floats:
    """(M, S, C) accuracy of each category; nan without test images."""
    return np.array([[_accuracy(drawn, method, seed) for seed in SEEDS] for method in METHODS])


def _accuracy(drawn: TrainingSet, method: str, seed: int) -> list[float]:
    recipe = classification(method)  # type: ignore[arg-type]
    recipe = replace(recipe, training=replace(recipe.training, seed=seed))
    model = train_last_layer(recipe, drawn.train, LastLayer())
    evaluator = ClassificationEvaluator(drawn.train.category_counts, drawn.test.class_names)
    evaluator.add(predict(model, drawn.test), {"labels": drawn.test.labels})
    return [np.nan if row.accuracy is None else row.accuracy for row in evaluator.per_category()]


def trained_glyphs(top: int, factor: int, folder: Path) -> Floats:
    """The same of the demo's network."""

    def accuracy(method: str, seed: int) -> list[float]:
        run = folder / f"{method}_{top}_{factor}_{seed}"
        if not (run / "evaluation.json").exists():
            data = ["--set", f"data.max_count={top}", "--set", f"data.imbalance_factor={factor}"]
            equigrad(["train", f"tiny:{method}", "--run", str(run), "--seed", str(seed), *data])
        return [category.metrics["accuracy"] or 0.0 for category in Evaluation.load(run).categories]

    return np.array([[accuracy(method, seed) for seed in SEEDS] for method in METHODS])


def row(kind: str, pool: str, name: str, tail: Tail, accuracies: Floats) -> dict[str, object]:
    """What was measured."""
    groups = np.digitize(tail.images, (20, 101))
    differences = paired_differences([Quantity(100 * accuracies, np.ones(len(groups)))], groups)
    gain, margin = (float(values[1, 0]) for values in (differences.estimate, differences.margin))
    return {
        "kind": kind,
        "pool": pool,
        "training_set": name,
        "imbalance": round(tail.imbalance, 1),
        "few": round(tail.tested_few, 3),
        "ce": round(100 * float(np.nanmean(accuracies[0])), 1),
        "gain": round(gain, 1),
        "margin": round(margin, 1),
    }


def measured(arguments: argparse.Namespace, done: set[tuple[str, str]]) -> Iterator[dict[str, object]]:
    """Rows of the training sets that are not done yet, named by pool and training set."""
    if arguments.draw == "networks":
        for top, factor in NETWORKS:
            name, images = f"{top} to {top / factor:.0f} images", exponential_profile(40, top, factor)
            if ("glyphs", name) not in done:
                accuracies = trained_glyphs(top, factor, arguments.output / "runs")
                yield row("network", "glyphs", name, Tail(images, images, np.ones_like(images)), accuracies)
        return
    sources = {folder.name: OwnImages(folder / "train", folder / "test") for folder in arguments.folders}
    if arguments.caltech is not None:
        lists = (arguments.caltech / name for name in ("train_natural.txt", "test.txt", "images.zip"))
        sources = {"Caltech-101": OwnImages(*lists), **sources}
    for pool, source in sources.items():
        for drawn in DRAWS[arguments.draw](pool, *pooled(source, arguments.output / "features")):
            if (pool, drawn.name) not in done:
                images = drawn.train.category_counts.numpy()
                tail = Tail(images, images, (drawn.test.category_counts > 0).numpy())
                kind = "new" if arguments.draw == "pareto" else "fitted"
                yield row(kind, pool, drawn.name, tail, last_layers(drawn))


def fitted(cases: Sequence[Case], form: Callable[[Case], float] = lambda case: case.tail) -> float:
    """The factor of a form: least squares, weighted by how well each gain was measured."""
    known = [(1 / case.margin**2, form(case), case.gain) for case in cases if case.margin]
    weight, shape, gain = np.array(known).T
    return float((weight * shape * gain).sum() / (weight * shape**2).sum())


def error(cases: Sequence[Case], form: Callable[[Case], float]) -> float:
    """Of a form on images it is not fitted to, in points: mean over the sources of images."""
    errors = []
    for source in dict.fromkeys(case.source for case in cases):
        factor = fitted([case for case in cases if case.source != source], form)
        own = [
            (1 / case.margin**2, case.gain - factor * form(case))
            for case in cases
            if case.source == source and case.margin
        ]
        weight, miss = np.array(own).T
        errors.append(float(np.sqrt(np.average(miss**2, weights=weight))))
    return float(np.mean(errors))


def is_inside(case: Case, points_per_tenfold: float) -> bool:
    """Whether the gain is in the interval of its forecast, which the noise of the measurement widens."""
    expected = points_per_tenfold * case.tail
    noise = (case.margin or 0) * 1.282 / 1.960  # 80 % instead of 95 %
    return abs(case.gain - expected) <= math.hypot(SPREAD * expected, noise)


def left_out(cases: Sequence[Case]) -> dict[str, Record]:
    """How many gains of each source of images are in the interval of a forecast that is fitted to the others."""
    found = {}
    for source in dict.fromkeys(case.source for case in cases):
        own = [case for case in cases if case.source == source]
        points = fitted([case for case in cases if case.source != source])
        found[source] = Record(sum(is_inside(case, points) for case in own), len(own))
    return found


def table(cases: Sequence[Case]) -> str:
    """Markdown: gains beside forecasts for each source of images, which the forecast is not fitted to."""
    lines = ["| images | training sets | measured gain | forecast | in its interval |", "|---|---|---|---|---|"]
    fitted_to = [case for case in cases if case.kind == "fitted"]
    for kind, source in dict.fromkeys((case.kind, case.source) for case in cases):
        own = [case for case in cases if (case.kind, case.source) == (kind, source)]
        others = [case for case in fitted_to if case.source != source]
        points = fitted(others) if kind == "fitted" else POINTS_PER_TENFOLD
        ranges = [_range([case.gain for case in own]), _range([points * case.tail for case in own])]
        inside = f"{sum(is_inside(case, points) for case in own)} of {len(own)}"
        lines.append("| " + " | ".join([f"{source}, {kind}", str(len(own)), *ranges, inside]) + " |")
    return "\n".join(lines)


def _range(values: Sequence[float]) -> str:
    low, high, mean = (f"{value:.1f}".replace("-", "−") for value in (min(values), max(values), np.mean(values)))
    return f"{low} to {high}, mean {mean}"


def read_cases(file: Path) -> list[Case]:
    """Of docs/evidence/outlook.csv."""
    with file.open(newline="", encoding="utf-8") as stream:
        return [
            Case(
                row["kind"],
                row["pool"],
                row["training_set"],
                float(row["imbalance"]),
                float(row["few"]),
                float(row["gain"]),
                float(row["margin"]) if row["margin"] else None,
            )
            for row in csv.DictReader(stream)
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--caltech", type=Path, metavar="FOLDER", help="train_natural.txt, test.txt and images.zip")
    parser.add_argument("--folders", type=Path, nargs="*", default=[], help="folders with `train` and `test`")
    parser.add_argument("--draw", choices=[*DRAWS, "networks"], default="grid", help="which training sets")
    parser.add_argument("--output", type=Path, default=Path("outlook"), help="folder of rows and features")
    parser.add_argument("--table", type=Path, metavar="CSV", help="print the table of rows that were measured")
    arguments = parser.parse_args()
    if arguments.table is not None:
        cases = read_cases(arguments.table)
        print(table(cases))
        kinds = {kind: [case for case in cases if case.kind == kind] for kind in ("fitted", "new")}
        print(
            f"new, inside: {sum(is_inside(case, POINTS_PER_TENFOLD) for case in kinds['new'])} of {len(kinds['new'])}"
        )
        print("fitted, inside a forecast from the other sources:", left_out(kinds["fitted"]))
        for name, form in FORMS.items():
            print(f"error {error(kinds['fitted'], form):.2f}, factor {fitted(kinds['fitted'], form):.2f}: {name}")
        return
    torch.set_num_threads(1)
    file = arguments.output / f"{arguments.draw}.csv"
    done = {(case.pool, case.training_set) for case in read_cases(file)} if file.exists() else set()
    for found in measured(arguments, done):
        is_new = not file.exists()
        with file.open("a", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, list(found))
            if is_new:
                writer.writeheader()
            writer.writerow(found)
        print(*found.values(), flush=True)


if __name__ == "__main__":
    main()
