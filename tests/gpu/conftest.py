"""Tests for a CUDA or ROCm device, `make test-gpu`; all skip where there is none.

`EQUIGRAD_TEST_DEVICE=cpu pytest tests/gpu` runs what needs no device on the CPU, with `TRITON_INTERPRET=1` also the
kernels: a check of the tests themselves.
"""

import os

import pytest
import torch


@pytest.fixture(scope="session")
def device():
    """Where the tests run."""
    name = os.environ.get("EQUIGRAD_TEST_DEVICE", "cuda")
    if name == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA or ROCm device; torch.cuda.is_available() is False")
    return torch.device(name)


@pytest.fixture
def gpu(device):
    """The device, for tests of what a CPU does not have."""
    if device.type == "cpu":
        pytest.skip("a CPU has no streams, events and allocator to look at")
    return device


@pytest.fixture(params=["triton", "torch"])
def kernels(request, device, monkeypatch):
    """What computes the losses in this test."""
    if request.param == "triton" and device.type == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("Triton kernels run on a CPU with TRITON_INTERPRET=1 only")
    monkeypatch.setenv("EQUIGRAD_KERNELS", request.param)
    return request.param
