import pytest
import torch

from equigrad.meter import senders
from equigrad.meter.samples import read_labels
from equigrad.meter.senders import SenderTable


def sent(gradient, labels, num_classes):
    """(C, C) negative gradient by sender and receiver, one sample after the other."""
    matrix = torch.zeros(num_classes, num_classes)
    for row, label in zip(gradient.abs(), labels.tolist(), strict=True):
        if label >= 0:
            matrix[label] += row
            matrix[label, label] -= row[label]
    return matrix


@pytest.fixture
def batch():
    torch.manual_seed(0)
    return torch.randn(64, 30), torch.randint(-1, 30, (64,))


def test_the_largest_senders_are_exact(batch):
    gradient, labels = batch
    table, matrix = SenderTable(30), sent(gradient, labels, 30)
    table.add(gradient, read_labels(gradient, labels, 30), 1.0)
    best = matrix[:, 4].topk(3)
    found = table.largest(4, 3)
    assert [sender for sender, _ in found] == best.indices.tolist()
    assert [amount for _, amount in found] == pytest.approx(best.values.tolist(), rel=1e-5)


def test_above_the_limit_amounts_are_bounds_from_above_in_bounded_memory(batch, monkeypatch):
    monkeypatch.setattr(senders, "MAX_EXACT", 20)
    monkeypatch.setattr(senders, "_NUM_ROWS", 16)
    gradient, labels = batch
    table, matrix = SenderTable(30), sent(gradient, labels, 30)
    table.add(gradient, read_labels(gradient, labels, 30), 0.5)
    assert table.sums.shape == (2, 17, 30)
    for receiver in range(30):
        for sender, amount in table.largest(receiver, 30):
            assert amount >= 0.5 * matrix[sender, receiver] - 1e-5


def test_8142_categories_fit_in_34_megabytes():
    table = SenderTable(8142)
    assert not table.is_exact
    assert table.sums.numel() * table.sums.element_size() < 34e6
    assert SenderTable(1203).sums.numel() * 4 < 6e6


def test_a_multi_label_sample_sends_for_each_of_its_categories():
    gradient, targets = torch.ones(1, 4), torch.tensor([[1.0, 1.0, 0.0, 0.0]])
    table = SenderTable(4)
    table.add(gradient, read_labels(gradient, targets, 4), 1.0)
    assert sorted(table.largest(3, 4)) == [(0, 1.0), (1, 1.0)]
    assert table.largest(0, 4) == []


def test_of_very_many_anchors_those_with_a_category_are_counted(monkeypatch):
    monkeypatch.setattr(senders, "_MAX_SAMPLES", 3)
    labels = torch.full((2, 50), -1)
    labels[1, 40] = 2
    gradient = torch.ones(2, 4, 50)
    table = SenderTable(4)
    table.add(gradient, read_labels(gradient, labels, 4), 1.0)
    assert table.largest(0, 4) == [(2, 1.0)]
    table.reset()
    assert table.largest(0, 4) == []
