import torch

from equigrad.meter.samples import read_labels


def test_a_label_of_a_later_column_means_background():
    samples = read_labels(torch.zeros(3, 4), torch.tensor([0, 3, -100]), num_classes=3)
    assert samples.labels.tolist() == [0, -1, -1]
    assert samples.ignored.tolist() == [False, False, True]
    assert samples.counts().tolist() == [1, 0, 0]


def test_without_ignored_samples_nothing_has_to_be_masked():
    assert read_labels(torch.zeros(2, 3), torch.tensor([0, -1]), num_classes=3).ignored is None


def test_own_values_are_zero_without_a_category():
    samples = read_labels(torch.zeros(2, 3), torch.tensor([2, -1]), num_classes=3)
    assert samples.own(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])).tolist() == [3.0, 0.0]
