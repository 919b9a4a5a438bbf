import numpy as np
import pycocotools.mask as mask_api
from hypothesis import given, strategies as st

from equigrad.evaluation.detection import matching
from equigrad.evaluation.detection.matching import (
    FOUND,
    IGNORED,
    IOU_THRESHOLDS,
    UNMATCHED,
    box_iou,
    find_candidates,
    match,
)


def one_at_a_time(ious, is_counted, is_crowd):
    """The rule as one would explain it: the detections of a cell (rows) choose in turn."""
    outcome = np.full((len(is_counted), len(IOU_THRESHOLDS), len(ious)), UNMATCHED)
    for size, counted in enumerate(is_counted):
        for level, threshold in enumerate(IOU_THRESHOLDS):
            free = np.ones(ious.shape[1], bool)
            for detection, row in enumerate(ious):
                possible = free & (row >= threshold)
                pool = possible & counted if (possible & counted).any() else possible
                if not pool.any():
                    continue
                chosen = max(np.flatnonzero(pool), key=lambda index: (row[index], index))
                outcome[size, level, detection] = FOUND if counted[chosen] else IGNORED
                free[chosen] = is_crowd[chosen]
    return outcome


@st.composite
def cells(draw):
    """IoUs (few values, so that many are equal), which annotations count, and which are crowds, of up to 4 cells."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    made = []
    for _ in range(draw(st.integers(1, 4))):
        num_detections, num_annotations = rng.integers(0, 7), rng.integers(0, 5)
        ious = rng.choice([0, 0.4, 0.5, 0.62, 0.75, 0.8, 0.97, 1], (num_detections, num_annotations))
        is_crowd = rng.random(num_annotations) < 0.2
        made.append((ious, (rng.random((2, num_annotations)) < 0.7) & ~is_crowd, is_crowd))
    return made


@given(cells(), st.integers(1, 20))
def test_all_cells_together_match_as_each_alone(drawn, pairs_at_once):
    numbers = [np.repeat(np.arange(len(drawn)), [cell[0].shape[axis] for cell in drawn]) for axis in (0, 1)]
    whole = np.zeros((len(numbers[0]), len(numbers[1])))
    for number, (ious, _, _) in enumerate(drawn):
        whole[np.ix_(numbers[0] == number, numbers[1] == number)] = ious
    normal, matching.PAIRS_AT_ONCE = matching.PAIRS_AT_ONCE, pairs_at_once
    try:
        candidates = find_candidates(*numbers, lambda detections, annotations: whole[detections, annotations])
    finally:
        matching.PAIRS_AT_ONCE = normal
    is_counted = np.concatenate([cell[1] for cell in drawn], 1)
    is_crowd = np.concatenate([cell[2] for cell in drawn])
    outcome = match(candidates, numbers[0], is_counted, is_crowd)
    alone = [one_at_a_time(*cell) for cell in drawn]
    assert (outcome == np.concatenate(alone, 2)).all()


def test_of_equal_overlaps_the_last_annotation_is_taken():
    # The first detection takes the second annotation; the other one is left with the first, which does not count.
    ious = np.array([[0.6, 0.6], [0.6, 0.6]])
    candidates = find_candidates(np.zeros(2, int), np.zeros(2, int), lambda rows, columns: ious[rows, columns])
    outcome = match(candidates, np.zeros(2, int), np.array([[True, True]]), np.zeros(2, bool))
    assert outcome[0, 0].tolist() == [FOUND, FOUND]
    assert outcome[0, 3].tolist() == [UNMATCHED, UNMATCHED]  # 0.65
    outcome = match(candidates, np.zeros(2, int), np.array([[False, True]]), np.zeros(2, bool))
    assert outcome[0, 0].tolist() == [FOUND, IGNORED]


@given(st.integers(0, 2**32))
def test_overlaps_of_boxes_are_those_of_pycocotools_to_the_last_bit(seed):
    rng = np.random.default_rng(seed)
    boxes, others = (rng.uniform(0, 20, (2, 15, 4))).round(int(rng.integers(0, 3)))
    is_crowd = rng.random(15) < 0.3
    expected = mask_api.iou(boxes, others, is_crowd.astype(np.uint8).tolist())
    rows, columns = np.indices((15, 15)).reshape(2, -1)
    assert (box_iou(boxes[rows], others[columns], is_crowd[columns]) == np.nan_to_num(expected.ravel())).all()
