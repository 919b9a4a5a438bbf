"""Time and memory of a training step of the losses on a GPU, against plain, compiled and Liger's losses, as CSV.

    python benchmarks/gpu.py > gpu.csv
    python benchmarks/gpu.py --kernels torch                # without Triton kernels
    python benchmarks/gpu.py --device cpu --shapes 64x100   # the same code without a GPU; its numbers mean little

A step is forward, statistics and backward. Times are milliseconds between two events on the device: the median and the
0.2 and 0.8 quantiles. The cache of the device is overwritten before every step, as the layers of a model would do it.
Memory is the peak that a step allocates, in logits tensors: 1 is the gradient alone.
"""

import argparse
import csv
import datetime
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import torch
from launches import OURS, PLAIN, SHAPES
from torch import Tensor

from equigrad.losses.kernel_choice import kernels_for

Step = Callable[[Tensor], Tensor]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
COLUMNS = ["shape", "dtype", "loss", "kind", "ms", "ms_0.2", "ms_0.8", "memory"]
CACHE_BYTES = 2**28  # more than the last cache of any card


def steps(shape: tuple[int, ...], labels: Tensor, *, is_compiled: bool) -> Iterator[tuple[str, str, Step]]:
    """Name, kind and step of what is compared."""
    device, quality = labels.device, torch.rand(labels.shape, device=labels.device)
    for name, plain in PLAIN.items():
        yield name, "eager", lambda logits, plain=plain: plain(logits, labels)
        if is_compiled:
            torch.compiler.reset()  # a new shape is no reason for dynamic shapes
            compiled = torch.compile(plain)
            yield name, "compiled", lambda logits, compiled=compiled: compiled(logits, labels)
    if importlib.util.find_spec("liger_kernel") is not None and device.type == "cuda" and len(shape) == 2:
        from liger_kernel.transformers.cross_entropy import LigerCrossEntropyLoss

        # Its gradient overwrites the logits: no memory of its own.
        liger = LigerCrossEntropyLoss()
        yield "LigerCrossEntropyLoss", "liger", lambda logits: liger(logits, labels)
    for name, loss_class in OURS.items():
        if "objectness" in name:  # one more column than the plain losses have
            continue
        loss = loss_class(shape[1]).to(device)
        extra = [quality] if name == "EqualizedQualityFocalLoss" else []
        yield name, kernels_for(device), lambda logits, loss=loss, extra=extra: loss(logits, labels, *extra)


def milliseconds(step: Step, logits: Tensor, repeats: int) -> list[float]:
    """Median, 0.2 and 0.8 quantiles."""
    is_cuda = logits.is_cuda
    cache = torch.empty(CACHE_BYTES if is_cuda else 0, dtype=torch.int8, device=logits.device)
    times = []
    for _ in range(repeats):
        logits.grad = None
        cache.zero_()
        if is_cuda:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            step(logits).backward()
            end.record()
            times.append((start, end))
        else:
            begin = time.perf_counter()
            step(logits).backward()
            times.append(1e3 * (time.perf_counter() - begin))
    if is_cuda:
        torch.cuda.synchronize(logits.device)
        times = [start.elapsed_time(end) for start, end in times]
    quantiles = torch.tensor([0.5, 0.2, 0.8], dtype=torch.float64)
    return torch.tensor(times, dtype=torch.float64).quantile(quantiles).tolist()


def peak_memory(step: Step, logits: Tensor) -> float | None:
    """Of the allocator of the device; None on a CPU, which has none to ask."""
    if not logits.is_cuda:
        return None
    logits.grad = None
    torch.cuda.reset_peak_memory_stats(logits.device)
    before = torch.cuda.memory_allocated(logits.device)
    step(logits).backward()
    return (torch.cuda.max_memory_allocated(logits.device) - before) / logits.nbytes


def environment(device: torch.device) -> dict[str, str]:
    """Card, driver, versions and date, the same in every row."""
    driver = ""
    if device.type == "cuda" and shutil.which("nvidia-smi"):
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        driver = subprocess.run(command, capture_output=True, text=True).stdout.split("\n")[0].strip()
    is_installed = importlib.util.find_spec("triton") is not None
    return {
        "card": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine(),
        "driver": driver or (torch.version.hip or "" if device.type == "cuda" else ""),
        "torch": torch.__version__,
        "triton": importlib.metadata.version("triton") if is_installed else "",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--shapes", nargs="+", default=SHAPES, help="NxC or NxCxHxW")
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"], choices=DTYPES)
    parser.add_argument("--kernels", default="auto", choices=["auto", "triton", "torch", "blocks"])
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile of the plain losses")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        sys.exit("benchmarks/gpu.py needs a GPU: torch.cuda.is_available() is False; --device cpu runs without one")
    os.environ["EQUIGRAD_KERNELS"] = arguments.kernels
    about = environment(device)
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow([*COLUMNS, *about])
    for text in arguments.shapes:
        shape = tuple(map(int, text.split("x")))
        labels = torch.randint(shape[1], (shape[0], *shape[2:]), device=device)
        for dtype in arguments.dtypes:
            for name, kind, step in steps(shape, labels, is_compiled=not arguments.no_compile):
                logits = torch.randn(shape, device=device).to(DTYPES[dtype]).requires_grad_()
                try:
                    milliseconds(step, logits, repeats=3)  # compiles and loads
                    times, memory = milliseconds(step, logits, arguments.repeats), peak_memory(step, logits)
                    cells = [*(f"{ms:.4f}" for ms in times), "" if memory is None else f"{memory:.2f}"]
                except torch.OutOfMemoryError:
                    cells = ["out of memory", "", "", ""]
                table.writerow([text, dtype, name, kind, *cells, *about.values()])
                sys.stdout.flush()


if __name__ == "__main__":
    main()
