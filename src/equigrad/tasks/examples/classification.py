"""Test images of a classifier, and the category that each run predicted."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equigrad.analysis.pictures.thumbnails import thumbnail
from equigrad.analysis.report.examples import Answer, Example
from equigrad.arrays import read_npz
from equigrad.data.images.dataset import ImageDataset
from equigrad.run_files import TEST_PREDICTIONS
from equigrad.tasks.classification.recipe import ClassificationRecipe
from equigrad.tasks.examples.wanted import Wanted

_SIDE = 128  # pixels


def find(
    folders: Sequence[Path], recipes: Sequence[ClassificationRecipe], wanted: Sequence[Wanted]
) -> list[list[Example]]:
    """For each category the images that show its change best."""
    if recipes[0].is_multi_label:
        raise ValueError("images with several categories have no single answer")
    predictions = [_predictions(folder) for folder in folders]
    _, test_set = recipes[0].data.load()
    for folder, found in zip(folders, predictions, strict=True):
        if found["paths"].tolist() != list(test_set.paths) or not np.array_equal(found["labels"], test_set.labels):
            raise ValueError(f"{folder / TEST_PREDICTIONS} is of other images than the test set of its recipe now")
    return [_examples(test_set, predictions, category) for category in wanted]


def _predictions(folder: Path) -> dict[str, NDArray[Any]]:
    file = folder / TEST_PREDICTIONS
    if not file.is_file():
        raise FileNotFoundError(f"{file} is missing; `equigrad evaluate {folder}` writes it")
    return read_npz(file, ["paths", "labels", "top", "scores"])


def _examples(
    test_set: ImageDataset, predictions: Sequence[dict[str, NDArray[Any]]], category: Wanted
) -> list[Example]:
    images = np.flatnonzero(test_set.labels == category.label)
    said = np.stack([found["top"][images, 0] for found in predictions])
    sure = np.stack([found["scores"][images, 0] for found in predictions])
    scores = np.where(said == category.label, sure, -sure)
    return [
        Example(
            thumbnail(test_set.images.store.read(test_set.paths[images[index]]), _SIDE),
            [_answer(test_set, category, *pair) for pair in zip(said[:, index], sure[:, index], strict=True)],
        )
        for index in category.best(scores)
    ]


def _answer(test_set: ImageDataset, category: Wanted, said: int, score: float) -> Answer:
    is_right = bool(said == category.label)
    return Answer(f"{'right' if is_right else test_set.class_names[said]}, {100 * score:.0f}\u00a0%", is_right)
