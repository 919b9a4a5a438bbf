import torch

from equigrad import GradientMeter
from equigrad.meter.table import category_states


def states(seen, share, positive=None, negative=None):
    size = len(seen)
    numbers = (seen, share, positive or [1.0] * size, negative or [1.0] * size)
    return category_states(*(torch.tensor(values, dtype=torch.float64) for values in numbers))


def test_a_category_without_samples_was_never_seen():
    assert states([0, 5], [float("nan"), 1.0]) == ["never seen", "balanced"]


def test_one_that_loses_its_samples_starves_and_one_with_little_positive_gradient_is_drowned():
    found = states([100, 5, 5], [1.0, 0.4, 0.9], positive=[9.0, 0.1, 0.1], negative=[9.0, 0.1, 9.0])
    assert found == ["balanced", "starving", "drowned"]


def test_one_that_wins_all_with_hardly_any_gradient_left_is_saturated():
    found = states([100, 100, 100], [1.0, 1.0, 1.0], positive=[1.0, 1.0, 0.001], negative=[1.0, 1.0, 0.001])
    assert found == ["balanced", "balanced", "saturated"]


def test_a_frequent_category_that_is_not_learnt_where_rarer_ones_are_has_suspicious_labels():
    seen, share = [10, 20, 30, 40, 50, 60, 70, 80], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.3, 1.0]
    assert states(seen, share)[6] == "suspicious labels"


def test_a_tail_that_is_not_learnt_is_no_matter_of_labels():
    seen, share = [1, 2, 3, 4, 50, 60, 70, 80], [0.0, 0.0, 0.0, 0.0, 0.4, 1.0, 1.0, 1.0]
    assert states(seen, share)[:5] == ["starving"] * 5


def test_rows_name_who_drowns_a_category():
    meter = GradientMeter(3, names=["cat", "dog", "eel"])
    logits = torch.tensor([[1.0, 0.0, 0.0]] * 3 + [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], requires_grad=True)
    labels = torch.tensor([0, 0, 0, 1, 2])
    meter.watch(logits, labels)
    torch.nn.functional.cross_entropy(logits, labels).backward()
    row = meter.table(num_senders=1)[2]
    assert (row.category, row.seen, row.recognition, row.state) == ("eel", 1.0, 0.0, "starving")
    ((sender, share),) = row.drowned_by
    assert sender == "cat"
    gradient = logits.softmax(1)[:4, 2]
    torch.testing.assert_close(share, (gradient[:3].sum() / gradient.sum()).item())
    assert row.ratio == row.positive / row.negative
