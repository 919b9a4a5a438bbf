from dataclasses import replace
from pathlib import Path

import numpy as np
import pycocotools.mask as mask_api
import pytest
from PIL import Image

from equigrad.data.images.sources import ImageSource
from equigrad.tasks.categories import TrainedCategories
from equigrad.tasks.detection.prediction import Detections, ShownObjects

CATEGORIES = TrainedCategories(
    ("person", "猫"), ("frequent", "rare"), np.array([500, 5]), np.array([900, 5]), ids=(10, 30)
)
LEFT_HALF = np.zeros((28, 28), np.float32)
LEFT_HALF[:, :14] = 1


@pytest.fixture
def found():
    """A cat with a mask and a person whose mask is empty, in an image of 100 x 80."""
    return Detections(
        ImageSource(pixels=Image.new("RGB", (100, 80), (90, 90, 90))),
        (80, 100),
        np.array([[10, 20, 50, 60], [0.5, 0, 100, 80]], np.float32),
        np.array([1, 0]),
        np.array([0.75, 0.5], np.float32),
        CATEGORIES,
        ShownObjects(),
        np.stack([LEFT_HALF, np.zeros_like(LEFT_HALF)]),
    )


@pytest.fixture
def nothing(found):
    rows = {name: getattr(found, name)[:0] for name in ("boxes", "labels", "scores", "box_masks")}
    return replace(found, **rows)


def test_masks_have_the_size_of_the_image(found):
    assert (found.masks.shape, found.masks.dtype) == ((2, 80, 100), bool)
    assert found.masks[0, 22:58, 12:29].all()
    assert not found.masks[0, :, 31:].any()
    assert not found.masks[1].any()


def test_the_standard_format_has_ids_sides_and_masks(found):
    cat, person = found.to_coco(image_id=7)
    assert (cat["image_id"], cat["category_id"], cat["score"]) == (7, 30, 0.75)
    assert cat["bbox"] == [10, 20, 40, 40]
    assert person["category_id"] == 10
    assert cat["segmentation"]["size"] == [80, 100]
    np.testing.assert_array_equal(mask_api.decode(cat["segmentation"]), found.masks[0])
    assert all("segmentation" not in entry for entry in replace(found, box_masks=None).to_coco(7))


def test_without_an_id_an_image_is_called_by_its_file(found):
    assert replace(found, source=ImageSource(Path("a/b.jpg"))).to_coco()[0]["image_id"] == "b.jpg"
    with pytest.raises(ValueError, match="an image that was given as pixels has no name; give its id"):
        found.to_coco()


def test_a_row_has_name_label_score_group_and_corners(found):
    assert found.rows()[0] == ("猫", 1, 0.75, "rare", 10, 20, 50, 60)
    assert len(found.rows()[0]) == len(found.COLUMNS)


def test_without_objects_every_form_is_empty(nothing):
    assert (nothing.to_coco(1), nothing.rows(), nothing.names, nothing.masks.shape) == ([], [], (), (0, 80, 100))
    assert nothing.summary == "no object with a score of 0.3 or more"
    assert replace(nothing, next_best=(0, 0.0004)).summary.endswith("; the best is person 0.0004 (frequent)")
    assert replace(nothing, shown=ShownObjects(threshold=0)).summary == "no object"
    assert replace(nothing, next_best=(0, 0.2)).summary.endswith("; the best is person 0.20 (frequent)")
    assert nothing.draw().width >= 100


def test_ids_that_a_run_does_not_know_are_not_made_up(found):
    unknown = replace(found, categories=replace(CATEGORIES, ids=None))
    with pytest.raises(ValueError, match=r"categories\.json has no ids of categories; `equigrad evaluate RUN`"):
        unknown.to_coco(1)


def test_to_supervision_gives_its_detections_or_says_how_to_install_it(found):
    try:
        import supervision
    except ModuleNotFoundError:
        with pytest.raises(ModuleNotFoundError, match="pip install supervision"):
            found.to_supervision()
        return
    given = found.to_supervision()
    assert isinstance(given, supervision.Detections)
    np.testing.assert_array_equal(given.class_id, [1, 0])
