"""Scaling the stored gradient, interpreted."""

import pytest
import torch
from torch.testing import assert_close

from equigrad.losses.kernels.backward import scale_gradient
from equigrad.losses.kernels.launch import run


def scaled(gradient, upstream, divisor, in_place):
    out = gradient if in_place else torch.empty_like(gradient)
    run(scale_gradient(gradient, upstream, divisor, out))
    return out, gradient


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("in_place", [True, False])
def test_the_gradient_is_multiplied_by_upstream_and_divided(interpreted, dtype, in_place):
    """A loss scale of 65536 is infinite in float16, and its quotient is not."""
    gradient = torch.linspace(-1, 1, 2100, dtype=torch.float64).to(dtype).view(3, 700)
    upstream, divisor = torch.tensor(65536.0), torch.tensor(131072.0, dtype=torch.float64)
    out, after = interpreted(scaled, gradient.clone(), upstream, divisor, in_place)
    assert_close(out, gradient / 2, rtol=0, atol=0)
    assert_close(after, out if in_place else gradient, rtol=0, atol=0)


def test_a_batch_without_samples_has_nothing_to_scale(interpreted):
    out, _ = interpreted(scaled, torch.zeros(0, 4), torch.tensor(2.0), torch.tensor(1.0), True)
    assert out.shape == (0, 4)
