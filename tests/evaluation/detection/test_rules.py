import numpy as np
from hypothesis import given, strategies as st

from equigrad.evaluation.detection.prediction_files import read_predictions
from equigrad.evaluation.detection.rules import COCO, LVIS, Rules, select, within_limit
from evaluation.detection_files import annotations_of, detection, detections_file, federated

BOX = [10, 10, 20, 20]


def selection(folder, content, detections, rules=LVIS):
    annotations = annotations_of(folder, content)
    return select(read_predictions(detections_file(folder, detections), annotations), annotations, rules)


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.1, 0.2, 0.3])), max_size=30), st.integers(1, 5))
def test_the_best_of_each_group_are_within_the_limit_and_of_equals_the_first(drawn, limit):
    groups, scores = np.array([row[0] for row in drawn], int), np.array([row[1] for row in drawn])
    chosen = within_limit(groups, scores, limit)
    for group in range(4):
        members = [index for index in range(len(drawn)) if groups[index] == group]
        best = sorted(members, key=lambda index: -scores[index])[:limit]
        assert sorted(best) == [index for index in members if chosen[index]]


def test_a_category_that_was_not_looked_for_in_the_image_is_left_out(tmp_path):
    content = federated({1: ([2], []), 2: ([], [])}, [(1, 1, BOX)])
    drawn = [detection(image, category, BOX, 0.5) for image in (1, 2) for category in (1, 2, 3)]
    assert selection(tmp_path, content, drawn).indices.tolist() == [0, 1]  # annotated, and verified to be absent
    assert selection(tmp_path, content, drawn, COCO).indices.tolist() == [0, 1, 2, 3, 4, 5]


def test_the_limit_of_an_image_comes_before_what_is_left_out(tmp_path):
    content = federated({1: ([], [])}, [(1, 1, BOX)])
    drawn = [detection(1, 2, BOX, 0.9), detection(1, 1, BOX, 0.8), detection(1, 1, BOX, 0.7)]
    chosen = selection(tmp_path, content, drawn, Rules(is_federated=True, per_image=2))
    assert chosen.indices[chosen.is_standard].tolist() == [1]
    assert chosen.indices[chosen.is_fixed].tolist() == [1, 2]  # AP-fixed has no limit of an image


def test_detections_are_excused_where_not_every_instance_is_annotated(tmp_path):
    content = federated({1: ([], [1]), 2: ([1], [])}, [(1, 1, BOX)])
    chosen = selection(tmp_path, content, [detection(1, 1, BOX, 0.9), detection(2, 1, BOX, 0.9)])
    assert chosen.is_excused.tolist() == [True, False]
    chosen = selection(tmp_path, content, [detection(1, 1, BOX, 0.9)], COCO)
    assert chosen.is_excused.tolist() == [False]


def test_detections_and_objects_without_area_do_not_exist_for_lvis(tmp_path):
    flat = [10, 10, 0, 20]
    content = federated({1: ([], [])}, [(1, 1, BOX), (1, 2, flat)])
    drawn = [detection(1, 1, flat, 0.9), detection(1, 2, BOX, 0.9)]
    assert selection(tmp_path, content, drawn).indices.tolist() == []
    assert selection(tmp_path, content, drawn, COCO).indices.tolist() == [0, 1]
