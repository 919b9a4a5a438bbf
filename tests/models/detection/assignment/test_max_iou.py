"""Assignment by IoU, and the parts the other assigners share."""

import pytest
import torch
from hypothesis import given, strategies as st

import equigrad
from equigrad.labels import BACKGROUND, IGNORE
from equigrad.models.detection.assignment import max_iou as module
from equigrad.models.detection.assignment.max_iou import MaxIoUAssigner, assign, lowest_columns, settle_claims
from models.detection_cases import anchors, assert_order_of_objects_is_irrelevant, iou, objects

OBJECT = torch.tensor([[0.0, 0, 10, 10]])


def row(*widths):
    """Anchors that share the top left corner and the height of the object: the IoU is their width / 10."""
    return torch.tensor([[0.0, 0, width, 10] for width in widths])


def test_labels_are_those_of_the_contract():
    assert (BACKGROUND, IGNORE) == (equigrad.BACKGROUND, equigrad.IGNORE)


def test_enough_is_positive_too_little_background_and_between_ignored():
    result = MaxIoUAssigner()([row(9, 5), row(4.5, 4, 3.9)], OBJECT, torch.tensor([7]))
    assert result.labels.tolist() == [7, 7, IGNORE, IGNORE, BACKGROUND]
    assert result.matched.tolist() == [0, 0, -1, -1, -1]
    assert result.positives.tolist() == [0, 1]


def test_the_best_anchor_of_an_object_is_positive_however_little_it_fits():
    far = torch.tensor([[50.0, 50, 60, 60]])
    result = MaxIoUAssigner()([row(2, 3, 3, 1)], torch.cat([OBJECT, far]), torch.tensor([7, 8]))
    assert result.labels.tolist() == [BACKGROUND, 7, 7, BACKGROUND]  # nobody answers for an object no anchor touches
    strict = MaxIoUAssigner(low_quality=False)([row(2, 3)], OBJECT, torch.tensor([7]))
    assert strict.labels.tolist() == [BACKGROUND, BACKGROUND]


def test_a_best_anchor_stays_with_the_object_it_fits_better():
    boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 2, 10]])  # the anchor is the best one of both
    result = MaxIoUAssigner()([row(9)], boxes, torch.tensor([7, 8]))
    assert result.matched.tolist() == [0]


def plain_max_iou(boxes, objects, positive, negative):
    overlaps = [[iou(anchor, box) for box in objects] for anchor in boxes]
    highest = [max(row[g] for row in overlaps) for g in range(len(objects))]
    matched, ignored = [], []
    for row in overlaps:
        best = max(row, default=0.0)
        is_best_of = any(value == top > 0 for value, top in zip(row, highest, strict=True))
        is_positive = bool(row) and (best >= positive or is_best_of)
        matched.append(row.index(best) if is_positive else -1)
        ignored.append(not is_positive and best >= negative)
    return matched, ignored


@pytest.mark.parametrize("block", [2**20, 50])
@given(case=objects())
def test_max_iou_agrees_with_plain_loops(monkeypatch_module, block, case):
    boxes, labels = case
    monkeypatch_module.setattr(module, "BLOCK", block)
    result = MaxIoUAssigner()(anchors(), boxes, labels)
    matched, ignored = plain_max_iou(torch.cat(anchors()).tolist(), boxes.tolist(), 0.5, 0.4)
    assert result.matched.tolist() == matched
    assert (result.labels == IGNORE).tolist() == ignored
    assert result.labels[result.positives].tolist() == labels[result.matched[result.positives]].tolist()


@given(st.integers(0, 999), st.integers(2, 8))
def test_the_order_of_objects_does_not_matter(seed, num_objects):
    assert_order_of_objects_is_irrelevant(MaxIoUAssigner(), anchors(), seed, num_objects)


@pytest.fixture(scope="module")
def monkeypatch_module():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.mark.parametrize("thresholds", [(0.4, 0.5), (0.5, 0.0), (1.5, 0.4)])
def test_thresholds_in_the_wrong_order_are_refused(thresholds):
    with pytest.raises(ValueError, match="expected 0 < negative <= positive <= 1"):
        MaxIoUAssigner(*thresholds)


def test_an_anchor_goes_to_the_highest_claim_and_a_tie_to_the_lowest_object():
    claimed = torch.tensor([4, 4, 2, 2, 2])
    objects_ = torch.tensor([0, 1, 5, 3, 4])
    scores = torch.tensor([0.5, 0.6, 0.7, 0.7, 0.1])
    assert settle_claims(claimed, objects_, scores, 6).tolist() == [-1, -1, 3, -1, 1, -1]


def test_nobody_claims_anything():
    nothing = torch.empty(0, dtype=torch.int64)
    assert settle_claims(nothing, nothing, torch.empty(0), 3).tolist() == [-1, -1, -1]


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=6, max_size=6), min_size=1, max_size=5),
    st.integers(1, 8),
    st.data(),
)
def test_lowest_columns_are_those_of_a_stable_sort(rows, largest, data):
    counts = data.draw(st.lists(st.integers(1, largest), min_size=len(rows), max_size=len(rows)))
    columns, wanted = lowest_columns(torch.tensor(rows), torch.tensor(counts), largest)
    for row, count, found, used in zip(rows, counts, columns, wanted, strict=True):
        expected = sorted(range(len(row)), key=lambda column: (row[column], column))[:count]
        assert sorted(found[used].tolist()) == sorted(expected)


def test_matched_objects_give_their_labels():
    result = assign(torch.tensor([-1, 1, 0]), torch.tensor([5, 6], dtype=torch.int32))
    assert result.labels.tolist() == [BACKGROUND, 6, 5]
    assert result.labels.dtype == torch.int64
