"""Registers and spills of the GPU kernels, compiled without a GPU for the shapes that users have.

    python benchmarks/kernel_resources.py
    python benchmarks/kernel_resources.py --targets sm_90 --only Softmax-EQL

Every launch of a step is compiled with the block sizes that it chooses for its shape, in float32 and bfloat16.
Registers are those of a thread, and spills its bytes that are stored and loaded: NVIDIA's by `ptxas -v`, which comes
with Triton, AMD's from the metadata of the code object. Prints a Markdown table. Fails if a kernel spills.
"""

import argparse
import re
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import ASTSource

from equigrad.losses.kernels.backward import scale_gradient
from equigrad.losses.kernels.launch import Launch
from equigrad.losses.kernels.sigmoid import binary_cross_entropy
from equigrad.losses.kernels.softmax import cross_entropy
from equigrad.losses.kernels.statistics import update_statistics
from equigrad.losses.kernels.weights import focal_weights, margin, sigmoid_weights

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
SHAPES = [(1024, 1203), (20000, 1203), (256, 4000), (512, 8142), (512, 100000), (4, 150, 512, 512)]
SIGMOID_EQL = {"positive_boost": 4.0, "mapping": "sigmoid", "steepness": 12.0, "midpoint": 0.8}


def steps(shape: tuple[int, ...], dtype: torch.dtype) -> Iterator[tuple[str, list[Launch]]]:
    """The launches of a training step of each loss, forward and backward. No tensor has memory."""

    def empty(*size: int, dtype: torch.dtype = torch.float64) -> Tensor:
        return torch.empty(size, dtype=dtype, device="meta")

    logits, soft = empty(*shape, dtype=dtype), empty(*shape, dtype=dtype)
    more_logits = empty(shape[0], shape[1] + 1, *shape[2:], dtype=dtype)  # with a column for objectness
    labels, quality = empty(shape[0], *shape[2:], dtype=torch.int64), empty(shape[0], *shape[2:], dtype=torch.float32)
    counts = empty(shape[1])
    statistics = (empty(shape[1]), empty(shape[1]))
    by_ratio = sigmoid_weights(*statistics, **SIGMOID_EQL)
    by_focus = focal_weights(*statistics, base_focus=2.0, focus_scale=8.0)
    by_prior = margin(statistics[0], prior_power=1.0, prior_floor=1e-4)
    focus, weight = by_focus.vectors
    efl = {"focus": focus, "positive_balance": 0.25}
    passes = {
        "Sigmoid-EQL": (by_ratio, binary_cross_entropy(logits, labels, *by_ratio.vectors)),
        "Sigmoid-EQL, targets": (by_ratio, binary_cross_entropy(logits, soft, *by_ratio.vectors)),
        "EFL": (by_focus, binary_cross_entropy(logits, labels, weight, weight, **efl)),
        "EQFL": (by_focus, binary_cross_entropy(logits, labels, weight, weight, focus=focus, quality=quality)),
        "EQFL, objectness": (
            by_focus,
            binary_cross_entropy(more_logits, labels, weight, weight, focus=focus, quality=quality, objectness=True),
        ),
        "Softmax-EQL": (by_prior, cross_entropy(logits, labels, *by_prior.vectors)),
        "Softmax-EQL, smoothing": (by_prior, cross_entropy(logits, labels, *by_prior.vectors, label_smoothing=0.1)),
        "Softmax-EQL, soft labels": (by_prior, cross_entropy(logits, soft, *by_prior.vectors)),
        "LDAM": (None, cross_entropy(logits, labels, label_margin=counts, weight=counts, scale=30.0)),
    }
    skipped, upstream = empty(dtype=torch.int64), empty(dtype=torch.float32)
    for name, (weights, loss) in passes.items():
        result = loss.result
        backward = scale_gradient(result.gradient, upstream, result.divisor, out=result.gradient)
        if weights is None:
            yield name, [*loss.launches, backward]
        else:
            update = update_statistics(*statistics, skipped, result.record, is_divided=True)
            yield name, [weights.launch, *loss.launches, update, backward]


class Resources(NamedTuple):
    """What a compiled kernel takes."""

    num_registers: int  # of a thread
    num_spilled: int  # bytes of a thread
    num_shared: int  # bytes of a program


def compile_launch(launch: Launch, target: GPUTarget) -> Any:
    """Compile a launch as Triton would before it runs: with its types, and what it specialises on."""
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
    source = ASTSource(launch.kernel, signature, constants, attributes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Triton about its own next release
        return triton.compile(source, target=target, options=launch.options(target.backend))


def resources(compiled: Any, target: GPUTarget) -> Resources:
    """Registers and spills of a compiled kernel."""
    if target.backend == "hip":
        assembly = compiled.asm["amdgcn"]
        registers = int(re.search(r"\.vgpr_count:\s+(\d+)", assembly)[1])
        num_spilled = int(re.search(r"\.vgpr_spill_count:\s+(\d+)", assembly)[1])
        return Resources(registers, 4 * num_spilled, compiled.metadata.shared)
    tool = get_ptxas(target.arch)
    architecture = re.search(r"\.target (\w+)", compiled.asm["ptx"])[1]
    with tempfile.TemporaryDirectory() as folder:
        ptx = Path(folder) / "kernel.ptx"
        ptx.write_text(compiled.asm["ptx"])
        command = [tool.path, "-v", f"--gpu-name={architecture}", ptx, "-o", ptx.with_suffix(".cubin")]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers = int(re.search(r"Used (\d+) registers", shown)[1])
    stores, loads = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", shown).groups()
    return Resources(registers, int(stores) + int(loads), compiled.metadata.shared)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--only", nargs="+", help="losses, by their name in the table")
    parser.add_argument("--shapes", nargs="+", default=["x".join(map(str, shape)) for shape in SHAPES])
    parser.add_argument("--dtypes", nargs="+", choices=["float32", "bfloat16"], default=["float32", "bfloat16"])
    arguments = parser.parse_args()
    print(f"| shape | dtype | loss | kernel | tile | warps | {' | '.join(arguments.targets)} |")
    print("|---" * (6 + len(arguments.targets)) + "|")
    num_spilling = 0
    seen = set()
    for shape in arguments.shapes:
        for dtype in arguments.dtypes:
            for name, launches in steps(tuple(map(int, shape.split("x"))), getattr(torch, dtype)):
                if arguments.only and name not in arguments.only:
                    continue
                for launch in launches:
                    cells = []
                    blocks = [str(value) for key, value in launch.arguments.items() if key.startswith("BLOCK")]
                    for target in arguments.targets:
                        compiled = compile_launch(launch, TARGETS[target])
                        if (compiled.hash, target) in seen:
                            continue  # the small kernels are the same in many rows
                        seen.add((compiled.hash, target))
                        registers, spilled, _ = resources(compiled, TARGETS[target])
                        num_spilling += spilled > 0
                        cells.append(f"{registers}" + (f", {spilled} B spilled" if spilled else ""))
                    if cells:
                        kernel = launch.kernel.__name__.removesuffix("_kernel")
                        row = [shape, dtype, name, kernel, "x".join(blocks), str(launch.num_warps), *cells]
                        print(f"| {' | '.join(row)} |", flush=True)
    print(f"\n{len(seen)} kernels compiled, {num_spilling} spill registers")
    if num_spilling:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
