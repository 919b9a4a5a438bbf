"""Is the doctor right about "will it help"? Its answer beside what was measured, on many training sets.

    python benchmarks/outlook.py --caltech DATA/caltech101 --folders characters1 characters2 objects leaves
    python benchmarks/outlook.py --caltech DATA/caltech101 --folders characters1 characters2 leaves --fresh
    python benchmarks/outlook.py --table docs/evidence/outlook.csv

Training sets are drawn from photographs (Caltech-101), from folders with `train` and `test` (docs/doctor.md has the
commands that make them) and, with `--glyphs`, from glyphs: as they are, and with exponential profiles of several sizes
and imbalance factors. `--fresh` draws others: half of the categories, profiles of other sizes, in a random order. CE
and Softmax-EQL with its defaults are trained with three seeds on each: a last layer on frozen features, or for glyphs
the whole network of the demo. A gain is a difference in category mean whose 95 % interval is above 0. Rows are kept as
they finish.
"""

import argparse
import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equigrad.analysis.doctor.outlook import answer
from equigrad.analysis.doctor.tail import Tail
from equigrad.analysis.history import Evaluation
from equigrad.analysis.paired_differences import Floats, Quantity, paired_differences
from equigrad.cli import main as equigrad
from equigrad.data.feature_cache import FeatureDataset, cache_features
from equigrad.data.frequency import exponential_profile
from equigrad.data.images.dataset import ImageDataset
from equigrad.data.images.lists import ImageList
from equigrad.data.long_tail import long_tailed
from equigrad.evaluation.classification import ClassificationEvaluator
from equigrad.evaluation.tables import write_table
from equigrad.recipes.own_data import classification
from equigrad.tasks.classification.data import OwnImages
from equigrad.tasks.classification.linear_probe import predict
from equigrad.tasks.comparison.last_layer import LastLayer, train_last_layer

METHODS = ("ce", "softmax_eql")
SEEDS = range(3)
SIZES = (5, 15, 60, 240)  # training images of the most frequent category
FACTORS = (1, 3, 10, 30, 100)
FRESH = ((20, 6), (20, 20), (100, 6), (100, 20), (100, 50))  # the same of training sets that the rule was not fitted to
GLYPHS = ((60, 3), (60, 10), (60, 30), (240, 3), (240, 10))


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

    kind: str  # "earlier" and "fitted": the rule was fitted to it; "fresh": measured afterwards
    pool: str
    training_set: str
    imbalance: float
    few: float
    gain: float  # points
    margin: float | None
    gained: bool


def training_sets(pool: str, images: ImageList, whole: FeatureDataset, tested: FeatureDataset) -> Iterator[TrainingSet]:
    """As it is, then with every profile that the pool has enough images for."""
    yield TrainingSet(pool, "as it is", whole, tested)
    largest = np.sort(images.category_counts)
    for top, factor in ((top, factor) for top in SIZES for factor in FACTORS if factor <= top):
        profile = exponential_profile(len(largest), top, factor)
        if top <= largest[-1] and (np.sort(profile)[: len(largest) // 2] <= largest[: len(largest) // 2]).all():
            kept = _kept(images, long_tailed(images, factor, max_count=top))
            yield TrainingSet(pool, f"{top} to {top / factor:.0f} images", whole.subset(kept), tested)


def fresh_sets(pool: str, images: ImageList, whole: FeatureDataset, tested: FeatureDataset) -> Iterator[TrainingSet]:
    """Of a random half of the categories each; one with fewer images than the profile asks for keeps all."""
    for seed, (top, factor) in enumerate(FRESH, start=1):
        if top <= images.category_counts.max():
            chosen = np.sort(np.random.default_rng(seed).permutation(len(images.class_names))[::2])
            kept = _kept(images, long_tailed(images, factor, max_count=top, order="random", seed=seed))
            half = f"half of it, {top} to {top / factor:.0f} images"
            yield TrainingSet(pool, half, _only(whole.subset(kept), chosen), _only(tested, chosen))


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
    """What was measured beside the doctor's answer."""
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
        "gained": int(gain > margin),
    }


def measured(arguments: argparse.Namespace, rows: list[dict[str, object]]) -> Iterator[dict[str, object]]:
    """Rows that are not there yet."""
    kind = "fresh" if arguments.fresh else "fitted"
    done = {(row["pool"], row["training_set"]) for row in rows}
    features = arguments.output / "features"
    sources = {folder.name: OwnImages(folder / "train", folder / "test") for folder in arguments.folders}
    if arguments.caltech is not None:
        lists = (arguments.caltech / name for name in ("train_natural.txt", "test.txt", "images.zip"))
        sources = {"Caltech-101": OwnImages(*lists), **sources}
    for pool, source in sources.items():
        draw = fresh_sets if arguments.fresh else training_sets
        for drawn in draw(pool, *pooled(source, features)):
            if (pool, drawn.name) not in done:
                images = drawn.train.category_counts.numpy()
                tested = (drawn.test.category_counts > 0).numpy()
                yield row(kind, pool, drawn.name, Tail(images, images, tested), last_layers(drawn))
    for top, factor in GLYPHS if arguments.glyphs and not arguments.fresh else ():
        name, images = f"{top} to {top / factor:.0f} images", exponential_profile(40, top, factor)
        if ("glyphs, trained", name) not in done:
            accuracies = trained_glyphs(top, factor, arguments.output / "runs")
            yield row(kind, "glyphs, trained", name, Tail(images, images, np.ones_like(images)), accuracies)


def fitted(cases: Sequence[Case]) -> tuple[float, float]:
    """Thresholds of imbalance factor and few-shot share that are right most often; the middle of equally good ones."""
    pairs = [
        (imbalance, few)
        for imbalance in _between([case.imbalance for case in cases], np.geomspace)
        for few in _between([case.few for case in cases], np.linspace)
    ]
    right = np.array([num_right(cases, *pair) for pair in pairs])
    best = [pair for pair, number in zip(pairs, right, strict=True) if number == right.max()]
    return best[len(best) // 2]


def _between(values: list[float], spaced: Callable[[float, float, int], Floats]) -> list[float]:
    """A threshold between each two neighbours."""
    known = sorted({max(value, 0.001) for value in values})
    return [float(spaced(low, high, 3)[1]) for low, high in pairwise(known)]


def num_right(cases: Sequence[Case], *thresholds: float) -> int:
    """On how many the rule says what was measured."""
    return sum((answer(case.imbalance, case.few, *thresholds) == "likely") == case.gained for case in cases)


def left_out(cases: Sequence[Case]) -> dict[str, tuple[int, int]]:
    """How often the rule is right on the training sets of a pool, fitted to those of the others; and their number."""
    found = {}
    for pool in dict.fromkeys(case.pool for case in cases):
        own = [case for case in cases if case.pool == pool]
        found[pool] = (num_right(own, *fitted([case for case in cases if case.pool != pool])), len(own))
    return found


def table(cases: Sequence[Case]) -> str:
    """Markdown with the doctor's answers."""
    lines = ["| images | training set | imbalance factor | few-shot, % | gain, points | the doctor says | |"]
    lines.append("|---|---|---|---|---|---|---|")
    for case in cases:
        says = answer(case.imbalance, case.few)
        verdict = "" if (says == "likely") == case.gained else "wrong"
        margin = "" if case.margin is None else f" ± {case.margin:.1f}"
        cells = [case.pool, case.training_set, f"{case.imbalance:,.4g}", f"{100 * case.few:.0f}"]
        lines.append("| " + " | ".join([*cells, f"{case.gain:+.1f}{margin}".replace("-", "−"), says, verdict]) + " |")
    return "\n".join(lines)


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
                row["gained"] == "1",
            )
            for row in csv.DictReader(stream)
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--caltech", type=Path, metavar="FOLDER", help="train_natural.txt, test.txt and images.zip")
    parser.add_argument("--folders", type=Path, nargs="*", default=[], help="folders with `train` and `test`")
    parser.add_argument("--glyphs", action="store_true", help="train networks on glyphs as well")
    parser.add_argument("--fresh", action="store_true", help="other training sets of the same images")
    parser.add_argument("--output", type=Path, default=Path("outlook"), help="folder of rows and features")
    parser.add_argument("--table", type=Path, metavar="CSV", help="print the table of rows that were measured")
    arguments = parser.parse_args()
    if arguments.table is not None:
        cases = read_cases(arguments.table)
        print(table(cases))
        for kind in dict.fromkeys(case.kind for case in cases):
            own = [case for case in cases if case.kind == kind]
            print(f"{kind}: right on {num_right(own)} of {len(own)}")
        print("left out, by pool:", left_out([case for case in cases if case.kind != "fresh"]))
        return
    torch.set_num_threads(1)
    file = arguments.output / ("fresh_rows.csv" if arguments.fresh else "rows.csv")
    rows = read_rows(file) if file.exists() else []
    for found in measured(arguments, list(rows)):
        rows.append(found)
        write_table(rows, file)
        print(*found.values(), flush=True)


def read_rows(file: Path) -> list[dict[str, object]]:
    """As `main` wrote them."""
    with file.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


if __name__ == "__main__":
    main()
