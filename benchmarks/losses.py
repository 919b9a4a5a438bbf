"""Time and memory of the losses against the plain loss they replace, eager and compiled, as ratios in one process.

    python benchmarks/losses.py                  # the first table of benchmarks/README.md
    python benchmarks/losses.py --all --shapes 20000x1203 --threads 1 --cpu-time --no-compile     # the second

A row is forward + backward + statistics, float32. Ours, the peer and `torch.compile` of the peer take turns, so that a
slow moment of the machine hits all; the ratio is that of the medians. On a machine that others use too, `--cpu-time`
counts the time of this process instead of wall-clock time, for one thread, and `--best` takes the fastest repeat
instead of the median. `--no-compile` spares some ten seconds for each peer and shape. Memory is the peak of the
resident set above the logits, in logits tensors.
"""

import ctypes
import math
import statistics
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.ops import sigmoid_focal_loss

import equigrad

SHAPES = ["256x1203", "1024x1203", "512x8142", "20000x1203", "100000x1203", "2x150x256x256", "512x100000"]
Step = Callable[..., Tensor]  # of logits, labels and quality


def one_hot(logits: Tensor, labels: Tensor) -> Tensor:
    return F.one_hot(labels, logits.shape[1]).movedim(-1, 1).to(logits.dtype)


def plain_bce(logits: Tensor, labels: Tensor, quality: Tensor) -> Tensor:
    loss = F.binary_cross_entropy_with_logits(logits, one_hot(logits, labels), reduction="sum")
    return loss / labels.numel()


def plain_cross_entropy(logits: Tensor, labels: Tensor, quality: Tensor) -> Tensor:
    return F.cross_entropy(logits, labels)


def plain_focal(logits: Tensor, labels: Tensor, quality: Tensor) -> Tensor:
    return sigmoid_focal_loss(logits, one_hot(logits, labels), reduction="sum") / labels.numel()


def plain_quality_focal(logits: Tensor, labels: Tensor, quality: Tensor) -> Tensor:
    target = one_hot(logits, labels) * quality.unsqueeze(1)
    cost = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    return ((target - logits.sigmoid()).abs() ** 2 * cost).sum() / labels.numel()


PAIRS: dict[str, Step] = {
    "SigmoidEqualizationLoss": plain_bce,
    "SoftmaxEqualizationLoss": plain_cross_entropy,
    "EqualizedFocalLoss": plain_focal,
    "EqualizedQualityFocalLoss": plain_quality_focal,
}
"""The paper's losses, each against the eager loss it replaces."""

SOFTMAX_PEERS = ["CrossEntropyLoss", "BalancedSoftmaxLoss", "LogitAdjustmentLoss", "LADELoss", "SeesawLoss", "LDAMLoss"]
SIGMOID_PEERS = [
    "BinaryCrossEntropyLoss",
    "FocalLoss",
    "QualityFocalLoss",
    "VarifocalLoss",
    "EqualizedVarifocalLoss",
    "FocalEqualizationLoss",
    "GradientBlockingLoss",
    "FederatedLoss",
    "EffectiveClassMarginLoss",
]
ALL: dict[str, Step] = {
    **dict.fromkeys(PAIRS, plain_bce),
    "SoftmaxEqualizationLoss": plain_cross_entropy,
    **dict.fromkeys([*SOFTMAX_PEERS, "GroupedSoftmaxLoss"], plain_cross_entropy),
    **dict.fromkeys(SIGMOID_PEERS, plain_bce),
}
"""Every loss against plain cross-entropy or BCE: what it costs to choose it."""


def ours(name: str, num_columns: int) -> Step:
    criterion = build(name, num_columns)
    if "Quality" in name or "Varifocal" in name:
        return criterion
    return lambda logits, labels, quality: criterion(logits, labels)


def build(name: str, num_columns: int) -> nn.Module:
    counts = 1 + 50_000 * torch.arange(1, num_columns + 1, dtype=torch.float64) ** -1.2  # a long tail
    loss_class = getattr(equigrad, name)
    if name in ("CrossEntropyLoss", "BinaryCrossEntropyLoss", "FocalLoss", "QualityFocalLoss", "VarifocalLoss"):
        return loss_class()
    if name == "GroupedSoftmaxLoss":
        # Its head has more columns than categories: as many categories as the columns hold.
        losses = (loss_class(counts[:number]) for number in range(num_columns - 1, 0, -1))
        return next(loss for loss in losses if loss.num_logits <= num_columns)
    if name == "GradientBlockingLoss":
        return loss_class(counts / counts.sum(), threshold=0.001)
    if name in (
        "BalancedSoftmaxLoss",
        "LogitAdjustmentLoss",
        "LADELoss",
        "LDAMLoss",
        "FederatedLoss",
        "EffectiveClassMarginLoss",
    ):
        return loss_class(counts)
    return loss_class(num_columns)


def run(step: Step, *batch: Tensor, clock: Callable[[], float] = time.perf_counter) -> float:
    batch[0].grad = None
    start = clock()
    step(*batch).backward()
    return clock() - start


def resident(field: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


def peak_memory(step: Step, *batch: Tensor) -> float:
    """Peak of the resident set during a step, in logits tensors. Linux only."""
    batch[0].grad = None
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again from here
    before = resident("VmRSS")
    run(step, *batch)
    return (resident("VmHWM") - before) / batch[0].nbytes


class Row(NamedTuple):
    milliseconds: float
    ratio: float  # to the eager peer
    compiled_ratio: float  # to the compiled peer; NaN without
    memory: float
    peer_memory: float


def measure(
    pairs: dict[str, Step], shape: tuple[int, ...], repeats: int, clock: Callable[[], float], arguments: Namespace
) -> dict[str, Row]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(shape, generator=generator).mul_(2).sub_(4).requires_grad_()
    samples = (shape[0], *shape[2:])
    labels = torch.randint(max(1, shape[1] - 8), samples, generator=generator)
    quality = torch.rand(samples, generator=generator)
    batch = (logits, labels, quality)
    torch.compiler.reset()  # the compiler would go on with dynamic shapes, and with the number of threads it knows
    compiled = {} if arguments.no_compile else {peer: torch.compile(peer) for peer in set(pairs.values())}
    typical = min if arguments.best else statistics.median
    table = {}
    for name, peer in pairs.items():
        steps = [ours(name, shape[1]), peer, *([compiled[peer]] if compiled else [])]
        for step in steps:
            run(step, *batch)
        times = [[run(step, *batch, clock=clock) for step in steps] for _ in range(repeats)]
        mine, *theirs = (typical(column) for column in zip(*times, strict=True))
        ratios = [mine / peer_time for peer_time in theirs] + ([] if compiled else [math.nan])
        table[name] = Row(mine * 1000, *ratios, *(peak_memory(step, *batch) for step in steps[:2]))
    return table


def main() -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", default=SHAPES, help="NxC or NxCxHxW")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--seconds", type=float, default=8.0, help="about how long to repeat each pair")
    parser.add_argument("--all", action="store_true", help="every loss, against plain cross-entropy or BCE")
    parser.add_argument("--cpu-time", action="store_true", help="time of this process, not of the clock on the wall")
    parser.add_argument("--best", action="store_true", help="the fastest repeat, not the median")
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile of the peers")
    arguments = parser.parse_args()
    clock = time.process_time if arguments.cpu_time else time.perf_counter
    pairs = ALL if arguments.all else PAIRS
    print("| shape | threads | loss | ms | time ratio | to compiled | memory | memory of the peer |")
    print("|---|---|---|---|---|---|---|---|")
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        for text in arguments.shapes:
            shape = tuple(map(int, text.split("x")))
            repeats = max(3, min(1000, round(arguments.seconds * 1e8 / math.prod(shape) / 4)))
            for name, row in measure(pairs, shape, repeats, clock, arguments).items():
                ratios = " | ".join(f"{ratio:.2f}" for ratio in row[1:])
                print(f"| {text} | {threads} | {name} | {row.milliseconds:.1f} | {ratios} |", flush=True)


if __name__ == "__main__":
    main()
