import json

import numpy as np
import pytest

from detection_on_disk import SQUARE, annotation, coco, image, write_json
from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.sampling.presence import CategoryPresence


@pytest.fixture
def data(tmp_path):
    images = [
        image(number, neg_category_ids=[[], [7], [1, 7]][number - 1], not_exhaustive_category_ids=[])
        for number in (1, 2, 3)
    ]
    records = [
        annotation(1, 3, 7, segmentation=SQUARE),
        annotation(2, 1, 7, box=(0, 0, 1, 1)),
        annotation(3, 1, 1),
        annotation(4, 1, 1),
        annotation(5, 2, 1, iscrowd=1),
    ]
    return read_coco(write_json(tmp_path / "a.json", coco(images, records)))


def test_counts_are_of_images_and_of_instances_without_crowds(data):
    assert data.category_counts.tolist() == [1, 2]
    assert data.instance_counts.tolist() == [2, 2]
    assert data.is_empty.tolist() == [False, True, False]


def test_presence_is_what_samplers_would_find_themselves(data):
    images, categories = data.presence
    assert list(zip(images.tolist(), categories.tolist(), strict=True)) == [(0, 0), (0, 1), (2, 1)]
    expected = CategoryPresence.of([[0, 1], [], [1]], 2)
    assert (images.tolist(), categories.tolist()) == (expected.images.tolist(), expected.categories.tolist())


def test_a_subset_takes_everything_of_its_images_along(data):
    part = data.subset([2, 1])
    assert part.image_ids.tolist() == [3, 2]
    assert part.ids.tolist() == [1, 5]
    assert part.offsets.tolist() == [0, 1, 2]
    assert part.file_names == ("3.png", "2.png")
    assert [part.negative[index].tolist() for index in (0, 1)] == [[0, 1], [1]]
    assert part.mask(0).sum() == 16
    assert part.xywh.tolist() == [[2, 1, 4, 4]] * 2
    assert part.category_counts.tolist() == [0, 1]  # counted anew
    assert len(data.subset([])) == 0


def test_groups_without_letters_go_by_images(data):
    assert {name: members.tolist() for name, members in data.groups.items()} == {
        "rare": [0, 1],
        "common": [],
        "frequent": [],
    }


def test_one_line_describes_the_data(data):
    assert data.describe().endswith("a.json: 3 images, 5 annotations, 2 categories (2 rare)")


def test_a_thousand_annotations_are_arrays_and_no_objects(tmp_path):
    records = [annotation(index, 1 + index % 2, segmentation=SQUARE) for index in range(1000)]
    data = read_coco(write_json(tmp_path / "a.json", coco(annotations=records)))
    columns = [data.boxes, data.labels, data.areas, data.is_crowd, data.ids, data.segmentations.starts]
    assert all(isinstance(column, np.ndarray) and len(column) == 1000 for column in columns)
    text = (tmp_path / "a.json").read_bytes()
    start, length = int(data.segmentations.starts[700]), int(data.segmentations.lengths[700])
    assert json.loads(text[start : start + length])["id"] == data.ids[700]
