import numpy as np
import pycocotools.mask as mask_api
import pytest
from hypothesis import given, strategies as st

from equigrad.evaluation.detection import openimages_matching
from equigrad.evaluation.detection.openimages_matching import (
    Boxes,
    all_point_average_precision,
    box_overlap,
    match_detections,
)


def boxes(*corners, scores=None, labels=None, images=None):
    count = len(corners)
    return Boxes(
        np.array(corners, float).reshape(-1, 4),
        np.array(labels if labels is not None else [0] * count, np.int64),
        np.array(images if images is not None else [0] * count, np.int64),
        np.array(scores if scores is not None else [1.0] * count),
    )


def outcomes(detections, ordinary, groups, num_images=1):
    is_true, is_counted = match_detections(detections, ordinary, groups, num_images)
    return is_true.tolist(), is_counted.tolist()


NONE = boxes()


def test_the_first_detection_of_a_box_is_true_and_the_next_is_false():
    twice = boxes((0, 0, 10, 10), (0, 0, 10, 9), (50, 50, 60, 60), scores=[0.9, 0.8, 0.7])
    assert outcomes(twice, boxes((0, 0, 10, 10)), NONE) == ([True, False, False], [True, True, True])


def test_a_detection_only_looks_at_its_best_box():
    # The second detection overlaps the left box by 0.6 too, but the right one more, which is taken.
    truth = boxes((0, 0, 10, 10), (0, 2, 10, 12))
    found = boxes((0, 2, 10, 12), (0, 1.6, 10, 11.6), scores=[0.9, 0.8])
    assert outcomes(found, truth, NONE) == ([True, False], [True, True])


def test_iou_must_be_at_least_one_half():
    truth = boxes((0, 0, 10, 10))
    assert outcomes(boxes((0, 0, 10, 5)), truth, NONE)[0] == [True]  # exactly 0.5
    assert outcomes(boxes((0, 0, 10, 4.9)), truth, NONE)[0] == [False]


def test_of_the_detections_in_a_group_the_first_is_true_and_the_rest_are_ignored():
    inside = boxes((0, 0, 5, 5), (10, 10, 15, 15), (90, 90, 120, 120), scores=[0.9, 0.8, 0.7])
    group = boxes((0, 0, 100, 100))
    assert outcomes(inside, NONE, group) == ([True, False, False], [True, False, True])  # a ninth of the last is inside


def test_an_ordinary_box_comes_before_a_group():
    found = boxes((0, 0, 10, 10), (0, 0, 10, 9), scores=[0.9, 0.8])
    assert outcomes(found, boxes((0, 0, 10, 10)), boxes((0, 0, 50, 50))) == ([True, True], [True, True])


def test_images_and_categories_do_not_mix():
    truth = boxes((0, 0, 10, 10), labels=[0], images=[1])
    found = boxes(*[(0, 0, 10, 10)] * 3, labels=[0, 0, 1], images=[0, 1, 1])
    assert outcomes(found, truth, NONE, num_images=2)[0] == [False, True, False]


def test_boxes_are_joined_taken_and_expanded():
    joined = Boxes.joined([boxes((0, 0, 1, 2), labels=[3]), NONE, boxes((4, 4, 6, 9), labels=[5], images=[2])])
    assert joined.sides.tolist() == [[0, 0, 1, 2], [4, 4, 2, 5]]
    assert joined.cells(10).tolist() == [30, 52]
    assert joined.take(np.array([1])).labels.tolist() == [5]
    expanded = joined.expanded(lambda labels: (np.array([0, 0, 1]), np.array([3, 7, 5])))
    assert (expanded.labels.tolist(), expanded.images.tolist()) == ([3, 7, 5], [0, 0, 2])


def test_average_precision_by_hand():
    # Precision 1 at recall 1/4, then 2/3 at 2/4; nothing beyond.
    assert all_point_average_precision(np.array([True, False, True]), 4) == pytest.approx((1 + 2 / 3) / 4)
    assert all_point_average_precision(np.array([False, True]), 1) == pytest.approx(0.5)
    assert all_point_average_precision(np.zeros(0, bool), 3) == 0


@given(st.lists(st.booleans(), max_size=20), st.integers(0, 5))
def test_average_precision_is_the_area_under_the_best_precision(flags, num_missed):
    num_boxes = max(sum(flags) + num_missed, 1)
    precisions = [sum(flags[: rank + 1]) / (rank + 1) for rank in range(len(flags))]
    area = sum(max(precisions[rank:]) for rank, is_true in enumerate(flags) if is_true) / num_boxes
    assert all_point_average_precision(np.array(flags, bool), num_boxes) == pytest.approx(area)


@given(st.integers(0, 2**32), st.booleans())
def test_overlaps_are_those_of_pycocotools_to_the_last_bit(seed, by_own_area):
    rng = np.random.default_rng(seed)
    sides, others = rng.uniform(0, 20, (2, 15, 4)).round(int(rng.integers(0, 3)))
    expected = mask_api.iou(sides, others, [int(by_own_area)] * 15)
    rows, columns = np.indices((15, 15)).reshape(2, -1)
    overlaps = box_overlap(sides[rows], others[columns], by_own_area=by_own_area)
    assert (overlaps == np.nan_to_num(expected.ravel())).all()


@pytest.mark.parametrize("pairs_at_once", [1, 7])
def test_outcomes_do_not_depend_on_how_many_pairs_are_compared_at_once(monkeypatch, pairs_at_once):
    rng = np.random.default_rng(0)
    places = rng.integers(0, 3, (3, 40, 2)) * 4.0
    corners = np.concatenate([places, places + rng.integers(5, 9, (3, 40, 2))], 2)
    images = np.sort(rng.integers(0, 4, (3, 40)))
    sides = [boxes(*part, images=owners) for part, owners in zip(corners, images, strict=True)]
    whole = outcomes(*sides, num_images=4)
    monkeypatch.setattr(openimages_matching, "PAIRS_AT_ONCE", pairs_at_once)
    assert outcomes(*sides, num_images=4) == whole
    assert 0 < sum(whole[0]) < 40
