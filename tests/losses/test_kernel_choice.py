import pytest
import torch

from equigrad.losses.kernel_choice import kernels_for

CPU, GPU, OTHER = torch.device("cpu"), torch.device("cuda"), torch.device("mps")


@pytest.mark.parametrize(
    ("wanted", "device", "chosen"),
    [
        ("auto", CPU, "blocks"),
        ("auto", GPU, "triton"),
        ("auto", OTHER, "torch"),
        ("torch", CPU, "torch"),
        ("torch", GPU, "torch"),
        ("blocks", GPU, "blocks"),
        ("triton", GPU, "triton"),
    ],
)
def test_the_variable_chooses_the_kernels(monkeypatch, wanted, device, chosen):
    monkeypatch.setenv("EQUIGRAD_KERNELS", wanted)
    assert kernels_for(device) == chosen


def test_without_the_variable_a_cpu_uses_blocks(monkeypatch):
    monkeypatch.delenv("EQUIGRAD_KERNELS", raising=False)
    assert kernels_for(CPU) == "blocks"


def test_triton_on_the_cpu_needs_its_interpreter(monkeypatch):
    monkeypatch.setenv("EQUIGRAD_KERNELS", "triton")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ValueError, match="EQUIGRAD_KERNELS=triton needs tensors on a GPU; TRITON_INTERPRET=1"):
        kernels_for(CPU)


def test_an_unknown_choice_is_refused_with_the_known_ones(monkeypatch):
    monkeypatch.setenv("EQUIGRAD_KERNELS", "cuda")
    with pytest.raises(ValueError, match="EQUIGRAD_KERNELS must be one of auto, triton, torch, blocks, got 'cuda'"):
        kernels_for(CPU)
