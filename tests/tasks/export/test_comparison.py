import math

import pytest
import torch

from equigrad.tasks.export.comparison import (
    Difference,
    detection_difference,
    label_map_difference,
    largest,
    score_difference,
)

OTHERS = "share of objects without a partner"


@pytest.fixture
def objects():
    boxes = torch.tensor([[0.0, 0, 10, 10], [20, 20, 40, 40], [5, 5, 30, 30]])
    return {"boxes": boxes, "scores": torch.tensor([0.9, 0.5, 0.5]), "labels": torch.tensor([1, 0, 1])}


def rows(objects, indices):
    return {name: values[indices] for name, values in objects.items()}


def test_objects_may_change_places(objects):
    difference = detection_difference(objects, rows(objects, [2, 0, 1]))
    assert set(difference.found.values()) == {0}
    assert difference.is_tolerated


def test_the_largest_difference_of_scores_and_boxes_is_found(objects):
    moved = objects | {"boxes": objects["boxes"] + torch.tensor([0, 0.05, 0, 0]), "scores": objects["scores"] - 4e-4}
    difference = detection_difference(objects, moved)
    assert difference.found["box in pixels"] == pytest.approx(0.05, rel=1e-4)
    assert difference.found["score"] == pytest.approx(4e-4, rel=1e-3)
    assert difference.is_tolerated


@pytest.mark.parametrize(
    "change",
    [
        lambda objects: rows(objects, [0, 1]),
        lambda objects: rows(objects, [0, 1, 2, 2]) | {"labels": torch.tensor([1, 0, 1, 0])},
        lambda objects: objects | {"labels": torch.tensor([1, 1, 1])},
        lambda objects: objects | {"scores": torch.tensor([0.9, 0.5, 0.6])},
        lambda objects: objects | {"boxes": objects["boxes"] + 1},
    ],
    ids=["missing", "too many", "label", "score", "box"],
)
def test_another_set_of_objects_is_not_tolerated(objects, change):
    difference = detection_difference(objects, change(objects))
    assert difference.found[OTHERS] >= 0.25
    assert not difference.is_tolerated


def test_no_objects_in_both_are_equal(objects):
    none = rows(objects, [])
    assert detection_difference(none, none).is_tolerated
    assert not detection_difference(none, objects).is_tolerated


def test_masks_are_compared_too(objects):
    masks = torch.zeros(3, 4, 4)
    other = masks.index_fill(0, torch.tensor([1]), 0.2)
    difference = detection_difference(objects | {"masks": masks}, objects | {"masks": other})
    assert difference.found["mask"] == pytest.approx(0.2)
    assert not difference.is_tolerated


def test_label_maps_may_differ_where_scores_tie():
    labels, scores = torch.zeros(1, 10, 10, dtype=torch.int64), torch.full((1, 10, 10), 0.5)
    other = labels.clone()
    other[0, 0, 0] = 1
    assert label_map_difference(labels, scores, other, scores).is_tolerated
    other[0] = 1
    assert not label_map_difference(labels, scores, other, scores).is_tolerated


def test_a_difference_that_is_no_number_is_not_tolerated():
    fine, broken = Difference({"score": 0.0}, {"score": 1.0}), Difference({"score": math.nan}, {"score": 1.0})
    assert fine.is_tolerated
    assert not largest([fine, broken, fine]).is_tolerated
    assert broken.exceeded == {"score"}
    assert not fine.exceeded
    assert not score_difference(torch.ones(1, 2), torch.tensor([[1.0, math.nan]])).is_tolerated
    assert str(fine) == "score 0.0e+00"
