"""Which loss works best on your images? Minutes on a CPU: the backbone is frozen, only the last layer is trained.

    python examples/compare_losses.py train.txt test.txt --root images.zip
    python examples/compare_losses.py photos/train photos/test --losses CE "Balanced Softmax" Softmax-EQL
    python examples/compare_losses.py photos/train photos/test --select-on-validation

`equigrad compare` does this for the methods of the package, with intervals and for every task. This script has more
rows, such as post-hoc adjustments, and chooses settings: it made docs/evidence/classification.md.

TRAIN and TEST are lists of `path label` or folders with a folder for each category. Features of an ImageNet network
(EfficientNet-Lite0) are computed once and kept in the output folder. Every loss sees the same batches; a row is the
mean over seeds and the spread between them. With --select-on-validation the settings of the losses that have some are
chosen on parts held out of the training set, never on the test set.
"""

import argparse
import copy
import io
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from comparison_rows import Row, candidates, with_counts, without_counts
from matplotlib.figure import Figure
from torch import nn

import equigrad
from equigrad.data.feature_cache import FeatureDataset, Features, cache_features
from equigrad.data.held_out import held_out_of_each_category
from equigrad.data.images.dataset import ImageDataset
from equigrad.data.images.transforms import whole_image_transform
from equigrad.evaluation.classification import ClassificationEvaluator
from equigrad.evaluation.tables import write_table
from equigrad.files import write_atomically
from equigrad.models.backbones.efficientnet_lite import PACKAGE, EfficientNetLite0
from equigrad.models.classification.classifier import Classifier, build_classifier
from equigrad.sampling import ClassBalancedSampler
from equigrad.tasks.classification.data import OwnImages
from equigrad.tasks.classification.linear_probe import fit, predict
from equigrad.tasks.losses import CategoryCounts

GROUPS = ("Overall", "Many", "Medium", "Few")
NUM_SPLITS = 3  # of the training set, to choose settings on
Split = tuple[FeatureDataset, FeatureDataset]  # to train on, held out


def train(row: Row, data: FeatureDataset, seed: int, epochs: int) -> Classifier:
    """A last layer trained with the row's method, ready to predict."""
    model = copy.deepcopy(trained(replace(row, after=None, settings=""), data, seed, epochs))
    if row.after is not None:
        row.after(model)
    return model


@cache  # first stages, and rows that differ in what is done afterwards
def trained(row: Row, data: FeatureDataset, seed: int, epochs: int) -> Classifier:
    method, counts = row.method, CategoryCounts(data.category_counts.numpy(), data.category_counts.numpy())
    start = None if row.first is None else train(Row(row.first), data, seed, epochs)
    torch.manual_seed(seed)
    model = build_classifier(
        Features(data.num_features),
        data.num_classes,
        row.build_loss(counts),
        row.build_scores(counts),
        cosine_temperature=method.cosine_temperature,
        bias_prior=method.bias_prior,
    )
    if start is not None and method.distils:
        model.teacher = equigrad.FrozenTeacher(nn.Sequential(start.backbone, start.classifier))
    elif start is not None and method.second_stage is not None:
        model.classifier = start.classifier
        method.second_stage.change(model)
    sampler = None if method.sampler == "random" else ClassBalancedSampler(data.labels, per_class=4, seed=seed)
    hook = None if row.after_epoch is None else partial(row.after_epoch, model)
    fit(model, data, epochs=epochs, seed=seed, sampler=sampler, after_epoch=hook)
    return model


def evaluate(model: Classifier, counts: torch.Tensor, test: FeatureDataset) -> dict[str, float]:
    evaluator = ClassificationEvaluator(counts, test.class_names)
    evaluator.add(predict(model, test), {"labels": test.labels})
    return evaluator.result()


def hold_out(data: FeatureDataset, *, seed: int) -> Split:
    """A fifth of each category's training samples, to choose settings on."""
    kept, held_out = held_out_of_each_category(data.labels, 0.2, seed=seed)
    return data.subset(kept), data.subset(held_out)


def select(rows: Sequence[Row], splits: Sequence[Split], counts: torch.Tensor, epochs: int) -> Row:
    """The row with the best mean accuracy of categories on held-out parts of the training set."""
    accuracies = []
    for row in rows:
        models = [train(row, kept, seed, epochs) for seed, (kept, _) in enumerate(splits)]
        results = [evaluate(model, counts, held_out) for model, (_, held_out) in zip(models, splits, strict=True)]
        accuracies.append(statistics.fmean(result["mean_class_accuracy"] for result in results))
        print(f"    held out: {100 * accuracies[-1]:5.1f}  {row.settings}", flush=True)
    return rows[accuracies.index(max(accuracies))]


def measure(row: Row, data: FeatureDataset, test: FeatureDataset, seeds: int, epochs: int) -> dict[str, float]:
    """Mean and spread over seeds, in per cent."""
    results = [evaluate(train(row, data, seed, epochs), data.category_counts, test) for seed in range(seeds)]
    record: dict[str, float] = {}
    for group in GROUPS:
        values = [100 * result[group] for result in results]
        spread = float(np.std(values, ddof=1)) if seeds > 1 else 0.0
        record |= {group: statistics.fmean(values), f"{group}_std": spread}  # nan for a group without categories
    return record


def draw(records: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Accuracy of the groups, a line for each loss, best overall on top."""
    ranked = sorted(records, key=lambda record: record["Overall"])
    figure = Figure(figsize=(8, 1.2 + 0.26 * len(ranked)), layout="constrained")
    axes = figure.subplots()
    colours = {"Overall": "#111827", "Many": "#93c5fd", "Medium": "#1d4ed8", "Few": "#c2410c"}
    for group, colour in colours.items():
        values, spreads = ([record[name] for record in ranked] for name in (group, f"{group}_std"))
        axes.errorbar(values, range(len(ranked)), xerr=spreads, fmt="o", ms=5, color=colour, label=group, capsize=2)
    labels = [record["loss"] + (" *" if record["uses_counts"] == "yes" else "") for record in ranked]
    axes.set(xlabel="accuracy on the test set, %   (* uses the counts)")
    axes.set_yticks(range(len(ranked)), labels)
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=4, frameon=False)
    save(figure, file)


def save(figure: Figure, file: Path) -> None:
    stream = io.BytesIO()
    figure.savefig(stream, dpi=130, format="png")
    write_atomically(file, stream.getvalue())


def progress(name: str, done: int, total: int) -> None:
    print(f"\rfeatures of {name}: {done} of {total}", end="\n" if done == total else "", flush=True)


def features(train_source: Path, test_source: Path, root: Path | None, folder: Path) -> list[FeatureDataset]:
    """Of training and test set, from the folder if it has them."""
    backbone, result = EfficientNetLite0(PACKAGE), []
    for name, images in zip(("train", "test"), OwnImages(train_source, test_source, root).load(), strict=True):
        whole, cache = ImageDataset(images.images, whole_image_transform()), folder / "features"
        result.append(cache_features(backbone, whole, cache, batch_size=16, progress=partial(progress, name)))
    return result


def compare(arguments: argparse.Namespace) -> None:
    without, using = without_counts(), with_counts(arguments.epochs)
    rows = {**without, **using}
    unknown = [name for name in arguments.losses or () if name not in rows]
    if unknown:
        raise ValueError(f"--losses: {unknown[0]} is none of {', '.join(rows)}")
    data, test = features(arguments.train, arguments.test, arguments.root, arguments.output)
    grids = candidates() if arguments.select_on_validation else {}
    splits = [hold_out(data, seed=seed) for seed in range(NUM_SPLITS)] if grids else []
    print(f"{'loss':24}{'counts':>6}" + "".join(f"{group.lower():>13}" for group in GROUPS))
    records: list[dict[str, Any]] = []
    for name in arguments.losses or rows:
        row = rows[name] if name not in grids else select(grids[name], splits, data.category_counts, arguments.epochs)
        numbers = measure(row, data, test, arguments.seeds, arguments.epochs)
        uses_counts = "yes" if name in using else "no"
        records.append({"loss": name, "uses_counts": uses_counts, **numbers, "settings": row.settings})
        cells = "".join(f"{numbers[group]:7.1f} ±{numbers[f'{group}_std']:4.1f}" for group in GROUPS)
        print(f"{name:24}{uses_counts:>6}{cells}  {row.settings}", flush=True)
    stem = "selected" if arguments.select_on_validation else "table"
    for suffix in ("csv", "json"):
        write_table(records, arguments.output / f"{stem}.{suffix}")
    draw(records, arguments.output / f"{stem}.png")
    print(f"{stem}.csv, {stem}.json and {stem}.png are in {arguments.output}")


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got {text!r}")
    return int(text)


def add_data_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("train", type=Path, help="list of `path label`, or folder of folders")
    parser.add_argument("test", type=Path, help="the same, of the same categories")
    parser.add_argument("--root", type=Path, help="folder or zip file that the paths of a list start from")
    parser.add_argument("--seeds", type=positive, default=3)
    parser.add_argument("--epochs", type=positive, default=60)
    parser.add_argument("--output", type=Path, default=Path("comparison"), metavar="FOLDER")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data_arguments(parser)
    parser.add_argument("--losses", nargs="+", metavar="NAME", help="only these rows of the table")
    parser.add_argument("--select-on-validation", action="store_true", help="choose settings on held-out training data")
    try:
        compare(parser.parse_args())
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
