"""A training step on a GPU, with fake tensors: few launches, and the host never waits for a value."""

import pytest
import torch
from benchmarks.launches import OURS, count


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (256, 1000), (100_000, 1203), (512, 100_000), (4, 150, 512, 512)])
@pytest.mark.parametrize("name", OURS)
def test_a_step_launches_at_most_six_kernels_forward_and_two_backward(name, shape, dtype):
    counts = count(name, shape, dtype)
    assert counts.forward <= 6
    assert counts.backward <= 2


@pytest.mark.parametrize("name", OURS)
def test_the_plain_device_path_launches_a_bounded_number(monkeypatch, name):
    monkeypatch.setenv("EQUIGRAD_KERNELS", "torch")
    assert count(name, (4, 150, 512, 512)).forward < 400
    assert count(name, (4, 150, 2048, 2048)).forward < 400
