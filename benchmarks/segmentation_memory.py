"""Memory and time of a segmenter's loss: full resolution, in tiles, and at the decoder's resolution.

    python benchmarks/segmentation_memory.py
    python benchmarks/segmentation_memory.py --shape 16x150x512x512   # a batch of ADE20K: plain losses take 10 GB

A row is forward, backward and statistics in float32, from decoder logits an eighth as large, in a process of its own.
Memory is the peak of the resident set above what was there before, in MB and in tensors of full-size logits. "Plain" is
`F.interpolate` with the eager loss. Time is that of the process, in the second of two steps. Linux only.
"""

import argparse
import math
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

import equigrad
from equigrad.models.segmentation.upsampled_loss import DecoderResolutionLoss, LabelResolutionLoss, TiledLoss

LOSSES = {
    "CrossEntropyLoss": lambda num_classes: equigrad.CrossEntropyLoss(),
    "SoftmaxEqualizationLoss": equigrad.SoftmaxEqualizationLoss,
    "SigmoidEqualizationLoss": equigrad.SigmoidEqualizationLoss,
}
WRAPPERS = {"full": LabelResolutionLoss, "tiled": TiledLoss, "decoder": DecoderResolutionLoss}
STRIDE = 8
Step = Callable[[Tensor, Tensor], Tensor]


def plain(name: str) -> Step:
    def step(logits: Tensor, labels: Tensor) -> Tensor:
        upsampled = F.interpolate(logits, size=labels.shape[-2:], mode="bilinear")
        if not name.startswith("Sigmoid"):
            return F.cross_entropy(upsampled, labels)
        target = torch.zeros_like(upsampled).scatter_(1, labels[:, None], 1.0)
        return F.binary_cross_entropy_with_logits(upsampled, target, reduction="sum") / labels.numel()

    return step


def resident(field: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


def run(step: Step, shape: tuple[int, ...]) -> float:
    """Seconds of a step from fresh logits."""
    num_images, num_classes, height, width = shape
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(num_images, num_classes, height // STRIDE, width // STRIDE, generator=generator)
    labels = torch.randint(num_classes, (num_images, height, width), generator=generator)
    logits.requires_grad_()
    start = time.process_time()
    step(logits, labels).backward()
    return time.process_time() - start


def measure(loss: str, mode: str, shape: tuple[int, ...]) -> None:
    """One row of the table."""
    torch.set_num_threads(1)
    step = plain(loss) if mode == "plain" else WRAPPERS[mode](LOSSES[loss](shape[1]))
    run(step, (2, shape[1], 2 * STRIDE, 2 * STRIDE))  # what is loaded with the first step stays out of the figure
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again from here
    before = resident("VmRSS")
    run(step, shape)
    peak = resident("VmHWM") - before
    seconds = run(step, shape)
    tensors = peak / (4 * math.prod(shape))
    print(f"| {'x'.join(map(str, shape))} | {loss} | {mode} | {peak / 2**20:.0f} | {tensors:.2f} | {seconds:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="4x150x256x256", help="NxCxHxW of the full-size logits")
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=list(LOSSES))
    parser.add_argument("--modes", nargs="+", choices=["plain", *WRAPPERS], default=["plain", *WRAPPERS])
    parser.add_argument("--row", action="store_true", help="one row, in this process")
    arguments = parser.parse_args()
    if arguments.row:
        measure(arguments.losses[0], arguments.modes[0], tuple(map(int, arguments.shape.split("x"))))
        return
    print("| logits | loss | resolution | MB | in logits | s |")
    print("|---|---|---|---|---|---|", flush=True)
    for loss in arguments.losses:
        for mode in arguments.modes:
            command = [sys.executable, __file__, "--row", "--shape", arguments.shape, "--losses", loss, "--modes", mode]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
