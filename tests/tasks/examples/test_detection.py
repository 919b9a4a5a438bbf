import io

import numpy as np
import pytest
import torch
from PIL import Image

from equigrad.evaluation.detection.evaluator import encode_masks
from equigrad.evaluation.detection.prediction_shards import PredictionWriter
from equigrad.recipes.catalogue import load_recipe
from equigrad.tasks.categories import TrainedCategories
from equigrad.tasks.detection.run import stored_sets
from equigrad.tasks.examples.detection import find
from equigrad.tasks.examples.wanted import Wanted
from small_detection_data import data_settings, write_small_data

URN = 2  # rare; objects of it are in the second and third test image


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    root = write_small_data(tmp_path_factory.mktemp("data"))
    return load_recipe("small_detection_data:small", data_settings(root)).recipe


def write_detections(folder, recipe, category, score=0.9, with_masks=False):
    """The true boxes of urns, said to be of a category."""
    sets = stored_sets(recipe)
    data = sets.test.data
    writer = PredictionWriter(folder / "predictions")
    for image, image_id in enumerate(data.image_ids.tolist()):
        rows = data.annotations_of(image)
        corners = data.boxes[rows][data.labels[rows] == URN]
        boxes = np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], axis=1)
        masks = torch.ones(len(boxes), int(data.heights[image]), int(data.widths[image]))
        ids = np.full(len(boxes), data.categories.ids[category])
        writer.add(image_id, ids, boxes, np.full(len(boxes), score), encode_masks(masks) if with_masks else None)
    writer.close()
    TrainedCategories.of(sets.train.data).save(folder)
    return folder


@pytest.mark.parametrize("with_masks", [False, True])
def test_objects_that_only_one_run_finds_are_drawn_with_what_the_other_said(tmp_path, recipe, with_masks):
    folders = [
        write_detections(tmp_path / name, recipe, category, with_masks=with_masks)
        for name, category in (("a", 0), ("b", URN))
    ]
    (examples,) = find(folders, [recipe, recipe], [Wanted(URN, run=1, is_gain=True)])
    assert len(examples) == 2  # test images with an urn
    first, second = examples[0].answers
    assert (first.text, first.is_right) == ("cup 0.90", False)
    assert (second.text, second.is_right) == ("right 0.90", True)
    pictures = [examples[0].picture, first.picture, second.picture]
    assert len({Image.open(io.BytesIO(picture)).size for picture in pictures}) == 1
    assert len(set(pictures)) == 3


def test_detections_below_the_threshold_are_nothing(tmp_path, recipe):
    folders = [write_detections(tmp_path / name, recipe, URN, score) for name, score in (("a", 0.1), ("b", 0.9))]
    (examples,) = find(folders, [recipe, recipe], [Wanted(URN, run=1, is_gain=True)])
    assert (examples[0].answers[0].text, examples[0].answers[0].is_right) == ("nothing", False)


def test_a_run_without_detections_is_named(tmp_path, recipe):
    with pytest.raises(ValueError, match=r"expected shards predictions-\*\.npz"):
        find([tmp_path / "a", tmp_path / "b"], [recipe, recipe], [Wanted(URN, run=1, is_gain=True)])
