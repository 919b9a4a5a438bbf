"""Launches of a training step: how many there are, and that they compile for GPUs that are not here."""

import re
import subprocess
import sys
from itertools import cycle

import pytest
import torch
from benchmarks.kernel_resources import TARGETS, compile_launch, resources, steps
from torch.testing import assert_close

from equigrad.losses.kernels.launch import vector_and_factor

SHAPES = [(0, 3), (256, 1000), (1024, 1203), (100_000, 1203), (512, 100_000), (4, 150, 512, 512), (2, 1_000_000)]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_step_is_at_most_five_launches_forward_and_one_backward(shape):
    for name, launches in steps(shape, torch.bfloat16):
        forward = [launch for launch in launches if launch.kernel.__name__ != "scale_kernel"]
        assert len(forward) <= 5, name
        assert len(launches) == len(forward) + 1, name


def compilations():
    """Every kernel with the losses that it differs most for, each for one of the GPUs in turn."""
    launches = {}
    for shape in ((1024, 1203), (512, 100_000), (4, 150, 512, 512)):
        for loss, step in steps(shape, torch.bfloat16):
            for launch in step:
                kernel = launch.kernel.__name__
                if kernel not in ("sigmoid_kernel", "softmax_kernel"):
                    launches.setdefault(kernel, launch)
                elif loss in ("Sigmoid-EQL", "EQFL", "Softmax-EQL"):
                    launches[f"{kernel} {loss} {shape}"] = launch
    for (name, launch), target in zip(launches.items(), cycle(TARGETS), strict=False):
        yield pytest.param(launch, target, id=f"{name} {target}")


@pytest.mark.parametrize(("launch", "target"), list(compilations()))
def test_a_kernel_compiles_without_spilling_and_adds_in_a_fixed_order(launch, target):
    compiled = compile_launch(launch, TARGETS[target])
    used = resources(compiled, TARGETS[target])
    assert used.num_registers > 0
    assert used.num_spilled == 0
    assert "tt.atomic" not in compiled.asm["ttir"]


@pytest.mark.parametrize("shape", [(1024, 1203), (4, 150, 512, 512), (512, 100_000)])
def test_logits_are_read_once_and_the_gradient_is_written_once(shape):
    """Nothing else is of half precision here. Above 4,096 categories a softmax reads the logits once more."""
    for name, launches in steps(shape, torch.bfloat16):
        if name not in ("Sigmoid-EQL", "EQFL", "Softmax-EQL"):
            continue
        kernels = {launch.kernel.__name__: launch for launch in launches}
        num_reads = num_writes = 0
        for kernel in kernels.keys() - {"scale_kernel"}:
            code = compile_launch(kernels[kernel], TARGETS["sm_90"]).asm["ttir"]
            num_reads += len(re.findall(r"tt\.load .*!tt\.ptr<bf16>", code))
            num_writes += len(re.findall(r"tt\.store .*!tt\.ptr<bf16>", code))
        assert num_reads == (2 if "rows_kernel" in kernels else 1), name
        assert num_writes == 1, name
        assert ("rows_kernel" in kernels) == (name == "Softmax-EQL" and shape[1] > 4096)


def test_the_losses_do_not_import_triton():
    code = "import sys, equigrad.losses.functional; equigrad.SigmoidEqualizationLoss(3); print('triton' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"


def test_a_number_of_all_categories_is_a_constant_of_the_kernel():
    assert vector_and_factor(None, 3) == (None, 1.0)
    assert vector_and_factor(0.5, 3) == (None, 0.5)
    vector, factor = vector_and_factor(torch.tensor(0.5), 3)
    assert_close(vector, torch.full((3,), 0.5))
    assert factor == 1.0
