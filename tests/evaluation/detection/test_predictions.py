import numpy as np

from equigrad.evaluation.detection.packed_masks import PackedMasks
from equigrad.evaluation.detection.predictions import Predictions


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
