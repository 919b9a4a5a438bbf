"""Detections that are known beforehand, through the transforms of a recipe, onto an image."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageColor
from torch import nn

from equigrad.analysis.pictures.predictions import GROUP_COLOURS
from equigrad.data.images.sources import ImageSource
from equigrad.tasks.categories import TrainedCategories
from equigrad.tasks.detection.prediction import ShownObjects
from equigrad.tasks.detection.predictor import DetectionPredictor
from equigrad.tasks.detection.preprocessing import Mosaics, ShorterSide

CATEGORIES = TrainedCategories(
    ("person", "cup", "abacus\x1b[31m\n"),
    ("frequent", "common", "rare"),
    np.array([500, 50, 5]),
    np.array([900, 60, 5]),
    (10, 20, 30),
)
GREY = (90, 90, 90)
IMAGE = Image.new("RGB", (1000, 800), GREY)


class Finder(nn.Module):
    """Finds, in the left upper quarter of any image, an object for each score."""

    def __init__(self, labels, scores, **fields):
        super().__init__()
        self.labels = nn.Parameter(torch.tensor(labels, dtype=torch.int64), requires_grad=False)
        self.scores, self.fields = torch.tensor(scores), fields

    def forward(self, images, targets):
        height, width = targets[0]["image_size"]
        boxes = torch.tensor([0, 0, width / 2, height / 2]).expand(len(self.scores), 4)
        found = {"boxes": boxes, "labels": self.labels.data, "scores": self.scores, **self.fields}
        return [found for _ in images]


def predicted(model, shown=None, preprocessing=None, categories=CATEGORIES, **options):
    preprocessing = preprocessing or ShorterSide(test_short=100, long=200)
    predictor = DetectionPredictor(
        model, categories, preprocessing.testing(), preprocessing.collate(), shown or ShownObjects()
    )
    (prediction,) = predictor([ImageSource(pixels=IMAGE)], **options)
    return prediction


def is_colour(picture, group):
    return (np.array(picture) == ImageColor.getrgb(GROUP_COLOURS[group])).all(-1)


@pytest.mark.parametrize("preprocessing", [ShorterSide(test_short=100, long=200), Mosaics(size=96)])
def test_a_box_is_drawn_where_it_is_in_the_file(preprocessing):
    found = is_colour(predicted(Finder([2], [0.9]), preprocessing=preprocessing).draw(), "rare")
    assert found[100:398, 499].all()
    assert found[399, 100:499].all()


def test_the_line_names_the_best_with_their_group_and_nothing_that_steers_a_terminal():
    line = predicted(Finder([0, 2, 1], [0.4, 0.91, 0.1])).summary
    assert line == "2 objects: abacus [31m 0.91 (rare), person 0.40 (frequent)"


def test_only_the_best_above_the_threshold_are_drawn_and_all_are_counted():
    model = Finder([0, 1, 2, 0, 0, 0, 0], [0.2, 0.5, 0.4, 0.31, 0.3125, 0.33, 0.32])
    shown = predicted(model, ShownObjects(threshold=0.3, limit=1))
    assert shown.summary.startswith("6 objects, the best 1 drawn: cup 0.50 (common) and 5 more")
    assert is_colour(shown.draw(), "common")[100:398, 499].all()
    boxes_only = np.array(shown.draw())[:800]
    assert not is_colour(boxes_only, "rare").any()
    assert predicted(model).summary.endswith("person 0.31 (frequent) and 1 more")


def test_without_any_object_the_best_score_is_told():
    shown = predicted(Finder([0, 1], [0.05, 0.12]))
    assert shown.summary == "no object with a score of 0.3 or more; the best is cup 0.12 (common)"
    assert (np.array(shown.draw())[:800] == GREY).all()
    assert predicted(Finder([], [])).summary == "no object with a score of 0.3 or more"


def test_masks_are_tinted_inside():
    masks = torch.zeros(2, 28, 28)
    masks[:, :, :14] = 1  # the left half of the box
    picture = np.array(predicted(Finder([1, 1], [0.9, 0.1], masks=masks)).draw())
    is_tinted = (picture[50:390, 20:480] != GREY).any(-1)
    assert is_tinted[:, : 220 - 20].all()
    assert not is_tinted[:, 280 - 20 :].any()


@pytest.mark.parametrize(("field", "value"), [("threshold", 1.5), ("threshold", float("nan")), ("limit", 0)])
def test_settings_out_of_range_are_refused(field, value):
    with pytest.raises(ValueError, match=f"{field} must be"):
        ShownObjects(**{field: value})


def test_objects_are_plain_arrays_best_first_in_pixels_of_the_image():
    found = predicted(Finder([0, 2, 1], [0.4, 0.91, 0.1]))
    assert len(found) == 2
    assert (found.labels.tolist(), found.names) == ([2, 0], ("abacus\x1b[31m\n", "person"))
    assert found.scores.tolist() == pytest.approx([0.91, 0.4])
    np.testing.assert_allclose(found.boxes, [[0, 0, 500, 400]] * 2)
    assert found.masks is None
    assert found.path is None


def test_a_threshold_overrides_that_of_the_recipe():
    assert len(predicted(Finder([0, 1, 2], [0.4, 0.2, 0.1]), threshold=0.15)) == 2
