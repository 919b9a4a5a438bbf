"""Test images of a segmenter: the true regions of a category, and those that each run finds.

Runs keep label maps only on request, so the few images that are shown are predicted again.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from equigrad.analysis.pictures.colours import distinct_colours
from equigrad.analysis.pictures.overlays import background, overlay
from equigrad.analysis.pictures.thumbnails import thumbnail
from equigrad.analysis.report.examples import Answer, Example
from equigrad.data.images.sources import ImageSource
from equigrad.data.segmentation.data import SegmentationData
from equigrad.tasks.examples.wanted import Wanted
from equigrad.tasks.segmentation.predictor import SegmentationPredictor
from equigrad.tasks.segmentation.recipe import SegmentationRecipe
from equigrad.tasks.segmentation.run import predictor

LabelMap = NDArray[np.int64]

_SIDE = 256  # pixels
_MAX_IMAGES = 300  # whose label maps are looked at
_NUM_PREDICTED = 8  # images of each category that the runs are asked about


def find(
    folders: Sequence[Path], recipes: Sequence[SegmentationRecipe], wanted: Sequence[Wanted]
) -> list[list[Example]]:
    """For each category, of the images with the most of its pixels, those that show its change best."""
    _, test_set = recipes[0].data.load()
    images = _images_of([category.label for category in wanted], test_set.data)
    models = [predictor(recipe, folder) for folder, recipe in zip(folders, recipes, strict=True)]
    return [_examples(test_set.data, models, own, category) for own, category in zip(images, wanted, strict=True)]


def _images_of(labels: Sequence[int], data: SegmentationData) -> list[list[int]]:
    """For each label the images with the most pixels of it."""
    chosen = np.linspace(0, len(data) - 1, min(len(data), _MAX_IMAGES)).astype(np.int64)
    maps = (data.read_labels(int(index)) for index in chosen)
    shares = np.array([[np.count_nonzero(labelled == label) for label in labels] for labelled in maps])
    best = [chosen[np.argsort(-column, kind="stable")][:_NUM_PREDICTED] for column in shares.T]
    return [[int(index) for index in own if _has(data, index, label)] for own, label in zip(best, labels, strict=True)]


def _has(data: SegmentationData, index: int, label: int) -> bool:
    return bool((data.read_labels(int(index)) == label).any())


def _examples(
    data: SegmentationData, models: Sequence[SegmentationPredictor], images: Sequence[int], category: Wanted
) -> list[Example]:
    found = [_example(data, models, index, category.label) for index in images]
    scores = np.array([scores for _, scores in found]).T
    return [found[index][0] for index in category.best(scores)] if found else []


def _example(
    data: SegmentationData, models: Sequence[SegmentationPredictor], index: int, label: int
) -> tuple[Example, list[float]]:
    """The image with the label maps of all runs, and the share of the category's pixels that each finds."""
    truth = np.asarray(data.read_labels(index)).astype(np.int64)
    photo = data.read_image(index, stated=truth.shape)
    answers, shares = [], []
    for model in models:
        (prediction,) = model([ImageSource(pixels=photo)])
        said = prediction.label_map.astype(np.int64)
        shares.append(float((said[truth == label] == label).mean()))
        union = np.count_nonzero((truth == label) | ((said == label) & (truth >= 0)))
        iou = np.count_nonzero((truth == label) & (said == label)) / union
        text = f"{100 * shares[-1]:.0f} % of its pixels found, IoU {100 * iou:.0f} %"
        answers.append(Answer(text, bool(iou >= 0.5), _drawn(photo, said, data, label)))
    return Example(_drawn(photo, truth, data, label), answers), shares


def _drawn(photo: Image.Image, labels: LabelMap, data: SegmentationData, label: int) -> bytes:
    """A thumbnail of the image with its regions; those of the category have a white border."""
    clear = background(data.class_names)
    colours = distinct_colours(data.num_classes)
    tinted = overlay(np.asarray(photo), np.maximum(labels, -1), colours, opacity=0.5, outlined={label}, clear=clear)
    return thumbnail(Image.fromarray(tinted), _SIDE)
