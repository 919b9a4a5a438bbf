from typing import get_args

import numpy as np
import pytest
import torch

from equigrad.recipes.methods.multi_label import METHODS, MultiLabelMethodName
from equigrad.tasks.losses import CategoryCounts


@pytest.mark.parametrize("name", get_args(MultiLabelMethodName))
def test_each_method_takes_targets_with_several_categories(name):
    method, counts = METHODS[name], np.array([5, 2, 1])
    loss = method.loss.build(CategoryCounts(counts, counts))
    logits = torch.zeros(4, 3, requires_grad=True)
    targets = torch.tensor([[1.0, 1, 0], [0, 0, 0], [1, 0, 1], [0, 1, 0]])
    loss(logits, targets).backward()
    assert bool((logits.grad.sign() == 1 - 2 * targets).all())  # up where the category is shown, else down
    assert method.scores.build(CategoryCounts(counts, counts)).num_logits(3) == 3
