"""Is the doctor right about "will it help"? Its answer beside what was measured, on many training sets.

    python benchmarks/outlook.py --caltech DATA/caltech101 --folders leaves characters1 characters2 objects
    python benchmarks/outlook.py --table outlook/rows.csv

Training sets are drawn from photographs (Caltech-101), from folders with `train` and `test` (docs/doctor.md has the
commands that make them) and from glyphs: as they are, and with exponential profiles of several sizes and imbalance
factors. CE and Softmax-EQL with its defaults are trained with three seeds on each: a last layer on frozen features, or
for glyphs the whole network of the demo. A gain is a difference in category mean whose 95 % interval is above 0. Rows
are kept as they finish; about half an hour on one idle core.
"""

import argparse
import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from equigrad.analysis.doctor.outlook import answer
from equigrad.analysis.doctor.tail import Tail
from equigrad.analysis.history import Evaluation
from equigrad.analysis.paired_differences import Floats, Quantity, paired_differences
from equigrad.cli import main as equigrad
from equigrad.data.feature_cache import FeatureDataset, cache_features
from equigrad.data.frequency import exponential_profile
from equigrad.data.images.dataset import ImageDataset
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
GLYPHS = ((240, 1), (240, 3), (240, 10), (240, 30), (60, 3), (60, 10), (60, 30))


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """One of many that are drawn from the same images."""

    pool: str
    name: str
    train: FeatureDataset
    test: FeatureDataset


def training_sets(pool: str, source: OwnImages, folder: Path, size: int = 128) -> Iterator[TrainingSet]:
    """As it is, then with every profile that the pool has enough images for."""
    recipe = classification(image_size=size)
    train, test = replace(recipe.data, train=source.train, test=source.test, root=source.root).load()  # type: ignore[call-arg]
    transform = recipe.data.evaluation_transform()
    backbone = recipe.backbone.build()
    whole, tested = (cache_features(backbone, ImageDataset(part.images, transform), folder) for part in (train, test))
    yield TrainingSet(pool, "as it is", whole, tested)
    largest = np.sort(train.images.category_counts)
    for top, factor in ((top, factor) for top in SIZES for factor in FACTORS if factor <= top):
        profile = exponential_profile(len(largest), top, factor)
        if top <= largest[-1] and (np.sort(profile)[: len(largest) // 2] <= largest[: len(largest) // 2]).all():
            images = long_tailed(train.images, factor, max_count=top)
            place = {path: index for index, path in enumerate(train.images.paths)}
            kept = torch.tensor([place[path] for path in images.paths])
            yield TrainingSet(pool, f"{top} to {top / factor:.0f} images", whole.subset(kept), tested)


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


def row(pool: str, name: str, tail: Tail, accuracies: Floats) -> dict[str, object]:
    """What was measured beside the doctor's answer."""
    groups = np.digitize(tail.images, (20, 101))
    differences = paired_differences([Quantity(100 * accuracies, np.ones(len(groups)))], groups)
    gain, margin = (float(values[1, 0]) for values in (differences.estimate, differences.margin))
    seen = tail.images > 0
    return {
        "pool": pool,
        "training set": name,
        "categories": int(seen.sum()),
        "images": int(tail.images.sum()),
        "imbalance": round(tail.imbalance, 1),
        "few": round(tail.tested_few, 3),
        "gini": round(tail.gini, 3),
        "ce": round(100 * float(np.nanmean(accuracies[0])), 1),
        "gain": round(gain, 1),
        "margin": round(margin, 1),
    }


def measured(arguments: argparse.Namespace, rows: list[dict[str, object]]) -> Iterator[dict[str, object]]:
    """Rows that are not there yet."""
    done = {(row["pool"], row["training set"]) for row in rows}
    features = arguments.output / "features"
    sources = {folder.name: OwnImages(folder / "train", folder / "test") for folder in arguments.folders}
    if arguments.caltech is not None:
        lists = (arguments.caltech / name for name in ("train_natural.txt", "test.txt", "images.zip"))
        sources = {"Caltech-101": OwnImages(*lists), **sources}
    for pool, source in sources.items():
        for drawn in training_sets(pool, source, features):
            if (pool, drawn.name) not in done:
                images = drawn.train.category_counts.numpy()
                tested = (drawn.test.category_counts > 0).numpy()
                yield row(pool, drawn.name, Tail(images, images, tested), last_layers(drawn))
    for top, factor in GLYPHS if arguments.glyphs else ():
        name, images = f"{top} to {top / factor:.0f} images", exponential_profile(40, top, factor)
        if ("glyphs, trained", name) not in done:
            accuracies = trained_glyphs(top, factor, arguments.output / "runs")
            yield row("glyphs, trained", name, Tail(images, images, np.ones_like(images)), accuracies)


def table(rows: list[dict[str, object]]) -> str:
    """Markdown with the doctor's answers, and how often they are right."""
    lines = ["| images | training set | imbalance factor | few-shot, % | CE, % | gain, points | the doctor says | |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    num_right = 0
    for entry in rows:
        imbalance, few, gain, margin = (float(str(entry[name])) for name in ("imbalance", "few", "gain", "margin"))
        says = answer(imbalance, few)
        is_right = (says == "likely") == (gain > margin)
        num_right += is_right
        cells = [entry["pool"], entry["training set"], f"{imbalance:.3g}", f"{100 * few:.0f}", entry["ce"]]
        cells += [f"{gain:+.1f} ± {margin:.1f}", says, "" if is_right else "wrong"]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join([*lines, "", f"right on {num_right} of {len(rows)}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--caltech", type=Path, metavar="FOLDER", help="train_natural.txt, test.txt and images.zip")
    parser.add_argument("--folders", type=Path, nargs="*", default=[], help="folders with `train` and `test`")
    parser.add_argument("--no-glyphs", dest="glyphs", action="store_false", help="leave out the trained networks")
    parser.add_argument("--output", type=Path, default=Path("outlook"), help="folder of rows and features")
    parser.add_argument("--table", type=Path, metavar="CSV", help="print the table of rows that were measured")
    arguments = parser.parse_args()
    if arguments.table is not None:
        print(table(read_rows(arguments.table)))
        return
    torch.set_num_threads(1)
    file = arguments.output / "rows.csv"
    rows = read_rows(file) if file.exists() else []
    for found in measured(arguments, list(rows)):
        rows.append(found)
        write_table(rows, file)
        print(*found.values(), flush=True)
    print(table(rows))


def read_rows(file: Path) -> list[dict[str, object]]:
    """As `main` wrote them."""
    with file.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


if __name__ == "__main__":
    main()
