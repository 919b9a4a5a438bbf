import torch

import equigrad


def test_labels_that_are_no_category_can_be_told_from_those_that_are():
    assert equigrad.BACKGROUND < 0
    assert equigrad.IGNORE < 0
    assert equigrad.BACKGROUND != equigrad.IGNORE


def test_ignore_is_what_torch_ignores_too():
    assert torch.nn.CrossEntropyLoss().ignore_index == equigrad.IGNORE
