from types import SimpleNamespace

import numpy as np
import pytest

from equigrad.evaluation.detection.annotations import Annotations, CategoryTable, ImageLists
from equigrad.evaluation.detection.evaluator import evaluate_predictions
from evaluation.detection_files import annotations_of, detection, detections_file, federated


def members(protocol):
    return [name for name in vars(protocol) if not name.startswith("_")]


@pytest.fixture
def data(tmp_path):
    boxes = [(1, 1, [10.0, 10.0, 20.0, 20.0]), (1, 2, [50.0, 20.0, 30.0, 40.0]), (2, 1, [5.0, 5.0, 60.0, 30.0])]
    return annotations_of(tmp_path, federated({1: ([3], []), 2: ([2], [1])}, boxes))


def bare(data):
    """The columns that the protocols name, and nothing else."""
    columns = {name: getattr(data, name) for name in members(Annotations)}
    columns["categories"] = SimpleNamespace(**{name: getattr(data.categories, name) for name in members(CategoryTable)})
    for name in ("negative", "not_exhaustive"):
        lists = getattr(data, name)
        columns[name] = SimpleNamespace(**{field: getattr(lists, field) for field in members(ImageLists)})
    return SimpleNamespace(**columns)


@pytest.mark.parametrize("iou_type", ["bbox", "segm"])
def test_the_metrics_need_nothing_but_the_named_columns(data, tmp_path, iou_type):
    drawn = [detection(1, 1, [11.0, 10.0, 20.0, 20.0], 0.9), detection(2, 1, [5.0, 5.0, 58.0, 30.0], 0.8)]
    drawn += [detection(1, 2, [55.0, 20.0, 30.0, 40.0], 0.7), detection(1, 3, [0.0, 0.0, 9.0, 9.0], 0.6)]
    for found in drawn:
        x, y, width, height = found["bbox"]
        found["segmentation"] = [[x, y, x + width, y, x + width, y + height, x, y + height]]
    file = detections_file(tmp_path, drawn)
    expected = evaluate_predictions(file, data, iou_type).result()
    assert 0 < expected["AP"] < 1
    assert evaluate_predictions(file, bare(data), iou_type).result() == pytest.approx(expected, nan_ok=True)


def test_columns_have_one_row_for_each_image_annotation_or_category(data):
    assert {len(column) for column in (data.image_ids, data.heights, data.widths)} == {2}
    assert {len(column) for column in (data.boxes, data.xywh, data.labels, data.areas, data.is_crowd)} == {3}
    assert {len(data.categories.ids), len(data.categories.names), len(data.categories.frequency)} == {3}
    assert np.diff(data.offsets).tolist() == [2, 1]
    assert data.negative.values[data.negative.offsets[1] : data.negative.offsets[2]].tolist() == [1]
