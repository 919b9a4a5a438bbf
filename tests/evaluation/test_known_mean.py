import math

import numpy as np
import pytest
import torch

from equigrad.evaluation.known_mean import mean_known


@pytest.mark.parametrize("array", [np.array, torch.tensor])
def test_the_mean_leaves_out_what_is_unknown(array):
    assert mean_known(array([1.0, math.nan, 0.0])) == 0.5
    assert math.isnan(mean_known(array([math.nan])))
