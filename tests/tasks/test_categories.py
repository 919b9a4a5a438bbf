import json

import numpy as np
import pytest

from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.engine import EngineError
from equigrad.tasks.categories import TrainedCategories
from small_detection_data import annotated, write_small_data


@pytest.fixture
def categories(tmp_path):
    return TrainedCategories.of(read_coco(write_small_data(tmp_path) / "train.json"))


def test_categories_have_names_groups_and_counts_in_the_order_of_labels(categories):
    assert categories.names == ("cup", "jug", "urn", "vat")
    assert categories.groups == ("frequent", "common", "rare", "rare")
    assert categories.image_counts.tolist() == [7, 3, 1, 1]
    assert len(categories) == 4


def test_an_object_counts_each_time_and_an_image_once(tmp_path):
    content = annotated([[3, 3, 5]])
    content["images"][0]["file_name"] = "a.png"
    (tmp_path / "a.json").write_text(json.dumps(content))
    categories = TrainedCategories.of(read_coco(tmp_path / "a.json"))
    assert categories.image_counts.tolist() == [1, 1, 0, 0]
    assert categories.instance_counts.tolist() == [2, 1, 0, 0]


def test_without_letters_groups_follow_the_counts(tmp_path):
    plain = [{"id": id_, "name": str(id_)} for id_ in (3, 5, 8)]
    content = annotated([[3, 5]] * 5 + [[3]] * 6, plain)
    for record in content["images"]:
        record["file_name"] = "a.png"
    (tmp_path / "a.json").write_text(json.dumps(content))
    assert TrainedCategories.of(read_coco(tmp_path / "a.json")).groups == ("common", "rare", "rare")


def test_a_run_remembers_its_categories(categories, tmp_path):
    categories.save(tmp_path / "run")
    loaded = TrainedCategories.load(tmp_path / "run")
    assert (loaded.names, loaded.groups) == (categories.names, categories.groups)
    assert loaded.ids == categories.ids == (3, 5, 8, 9)
    for name in ("image_counts", "instance_counts"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(categories, name))
        assert getattr(loaded, name).dtype == np.int64


def test_a_folder_without_the_file_is_no_run_of_a_detector(tmp_path):
    with pytest.raises(EngineError, match=r"not the run of a detector, it has no categories\.json"):
        TrainedCategories.load(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "[{",
        "7",
        '[{"name": "cup"}]',
        '{"name": "cup"}',
        '[{"name": "cup", "group": "rare", "images": "many", "instances": 1}]',
        '[{"name": "cup", "group": "rare", "images": 1.5, "instances": 1}]',
        '[{"name": 3, "group": "rare", "images": 1, "instances": 1}]',
    ],
)
def test_a_broken_file_is_named(text, tmp_path):
    (tmp_path / "categories.json").write_text(text)
    with pytest.raises(EngineError, match=r"categories\.json: expected a list of name, group, images and instances"):
        TrainedCategories.load(tmp_path)
