import numpy as np
import pytest
import torch

from equigrad.tasks.classification import top_predictions
from equigrad.tasks.classification.top_predictions import NUM_BEST, TopPredictions

NUM_IMAGES, NUM_CLASSES = 7, 9


def scores_of(index, num_classes=NUM_CLASSES):
    """Best is the category of the image's number, then the ones before it."""
    return torch.tensor([1 / (1 + (index - label) % num_classes) for label in range(num_classes)])


def added(indices, batch_size=2, num_classes=NUM_CLASSES):
    """The predictions for these images, in batches."""
    top = TopPredictions()
    for first in range(0, len(indices), batch_size):
        batch = indices[first : first + batch_size]
        targets = {
            "index": torch.tensor(batch),
            "paths": [f"{index}.png" for index in batch],
            "labels": torch.tensor([index % 3 for index in batch]),
        }
        top.add([{"scores": scores_of(index, num_classes)} for index in batch], targets)
    return top


def test_the_five_best_categories_are_kept_with_the_best_first():
    kept = added([0, 6]).gathered()
    assert kept["top"].tolist() == [[0, 8, 7, 6, 5], [6, 5, 4, 3, 2]]
    np.testing.assert_allclose(kept["scores"], [[1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]] * 2)
    assert kept["top"].shape[1] == NUM_BEST


def test_all_categories_are_kept_where_there_are_fewer_than_five():
    assert added([1], num_classes=3).gathered()["top"].tolist() == [[1, 0, 2]]


@pytest.mark.parametrize("num_ranks", [2, 3])
def test_shares_of_several_ranks_are_joined_in_the_order_of_the_test_set(monkeypatch, num_ranks):
    ranks = [added(list(range(rank, NUM_IMAGES, num_ranks))) for rank in range(num_ranks)]
    # What the ranks send each other.
    batches = [rank._batches for rank in ranks]
    monkeypatch.setattr(top_predictions, "gather_objects", lambda value: batches)
    joined, alone = ranks[0].gathered(), added(list(range(NUM_IMAGES))).gathered()
    assert joined["paths"].tolist() == [f"{index}.png" for index in range(NUM_IMAGES)]
    assert joined["labels"].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert set(joined) == {"paths", "labels", "top", "scores"}
    for name, values in alone.items():
        np.testing.assert_array_equal(joined[name], values)


def test_scores_in_half_precision_are_kept_as_plain_numbers_without_pickles(tmp_path):
    top = TopPredictions()
    targets = {"index": [0], "paths": ["a.png"], "labels": [2]}
    top.add([{"scores": torch.tensor([0.25, 0.5, 0.125], dtype=torch.bfloat16)}], targets)
    np.savez(tmp_path / "test.npz", **top.gathered())
    with np.load(tmp_path / "test.npz", allow_pickle=False) as stored:
        assert stored["scores"].tolist() == [[0.5, 0.25, 0.125]]
        assert stored["paths"].tolist() == ["a.png"]
        assert (stored["scores"].dtype, stored["top"].dtype) == (np.float32, np.int32)
