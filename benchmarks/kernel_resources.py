"""Registers and spills of the GPU kernels, compiled without a GPU for the shapes that users have.

    python benchmarks/kernel_resources.py
    python benchmarks/kernel_resources.py --targets sm_90 --only softmax

Every launch of a pass is compiled with the block sizes it chooses for its shape. NVIDIA's numbers are those of the
bundled `cuobjdump`, AMD's those in the metadata of the code object. Prints a Markdown table; a kernel that spills makes
the command fail.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from equigrad.losses.kernels.launch import Launch
from equigrad.losses.kernels.sigmoid import binary_cross_entropy
from equigrad.losses.kernels.softmax import cross_entropy

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}


class Resources(NamedTuple):
    """What one thread of a compiled kernel takes."""

    num_registers: int
    num_spilled: int  # bytes
    num_shared: int  # bytes of a program


def compile_launch(launch: Launch, target: GPUTarget) -> Any:
    """Compile a launch as Triton would before it runs: with its types, and what it specialises on."""
    names = launch.kernel.arg_names
    signature, constants, attributes = {}, {}, {}
    for index, parameter in enumerate(launch.kernel.params):
        value = launch.arguments[parameter.name]
        if parameter.is_constexpr or value is None or (isinstance(value, int) and value == 1):
            signature[parameter.name] = "constexpr"
            constants[(index,)] = value
        elif parameter.annotation_type:
            signature[parameter.name] = parameter.annotation_type
        else:
            signature[parameter.name] = triton.runtime.jit.mangle_type(value)
            if isinstance(value, Tensor) or value % 16 == 0:
                attributes[(index,)] = [["tt.divisibility", 16]]
    assert set(names) == launch.arguments.keys()
    source = ASTSource(launch.kernel, signature, constants, attributes)
    return triton.compile(source, target=target, options={"num_warps": launch.num_warps})


def resources(compiled: Any, target: GPUTarget) -> Resources:
    """Registers and spills of a compiled kernel."""
    if target.backend == "hip":
        text = compiled.asm["amdgcn"]
        registers = int(re.search(r"\.vgpr_count:\s+(\d+)", text)[1])
        spilled = int(re.search(r"\.vgpr_spill_count:\s+(\d+)", text)[1])
        return Resources(registers, 4 * spilled, compiled.metadata.shared)
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "kernel.cubin"
        cubin.write_bytes(compiled.asm["cubin"])
        tool = triton.knobs.nvidia.cuobjdump.path
        shown = subprocess.run([tool, "-res-usage", cubin], capture_output=True, text=True, check=True).stdout
    registers, local = re.search(r"REG:(\d+).*STACK:(\d+)", shown).groups()
    return Resources(int(registers), int(local), compiled.metadata.shared)
