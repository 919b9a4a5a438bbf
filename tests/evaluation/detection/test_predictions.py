import numpy as np
import pytest
from hypothesis import given, strategies as st

from equigrad.evaluation.detection.packed_masks import PackedMasks
from equigrad.evaluation.detection.predictions import IdTable, Predictions


def predictions(*scores, masks=None):
    numbers = np.arange(len(scores), dtype=np.int32)
    boxes = np.array([[score, 0, 2, 3] for score in scores], float).reshape(-1, 4)
    packed = None if masks is None else PackedMasks.of(masks)
    return Predictions(numbers, numbers + 1, boxes, np.array(scores, float), boxes[:, 2] * boxes[:, 3], packed)


def test_parts_are_joined_in_order_with_their_masks():
    joined = Predictions.joined([predictions(0.5, 0.25, masks=[b"a", b"bc"]), predictions(0.75, masks=[b"d"])])
    assert len(joined) == 3
    assert joined.scores.tolist() == [0.5, 0.25, 0.75]
    assert joined.images.tolist() == [0, 1, 0]
    assert joined.labels.tolist() == [1, 2, 1]
    assert joined.boxes[:, 0].tolist() == [0.5, 0.25, 0.75]
    assert [joined.masks.counts(index) for index in range(3)] == [b"a", b"bc", b"d"]


def test_nothing_joined_is_empty_and_has_no_masks():
    empty = Predictions.joined([])
    assert (len(empty), empty.boxes.shape, empty.masks) == (0, (0, 4), None)
    assert Predictions.joined([predictions(0.5)]).masks is None


@given(st.lists(st.integers(-5, 20), unique=True, min_size=1), st.data())
def test_ids_are_found_in_any_order_and_as_often_as_wanted(ids, data):
    wanted = data.draw(st.lists(st.sampled_from(ids)))
    table = IdTable(np.array(ids))
    assert table.indices(np.array(wanted, np.int64)).tolist() == [ids.index(number) for number in wanted]
    assert [table.has(number) for number in range(-6, 22)] == [number in ids for number in range(-6, 22)]


@pytest.mark.parametrize("ids", [[], [3, 9], [3, 2**60]])
@pytest.mark.parametrize("unknown", [4, -3, 2**61])
def test_an_unknown_id_is_refused(ids, unknown):
    with pytest.raises(ValueError, match="ids of the annotations"):
        IdTable(np.array(ids, np.int64)).indices(np.array([unknown]))


def test_large_ids_are_found_too():
    assert IdTable(np.array([2**60, 5, 2**50])).indices(np.array([5, 2**60])).tolist() == [1, 0]


def test_no_ids_have_no_indices():
    assert len(IdTable(np.zeros(0, np.int64)).indices(np.zeros(0, np.int64))) == 0
