"""Memory and open files of a training with each stateful loss, early and late: they must not grow.

    python benchmarks/endurance.py
    python benchmarks/endurance.py --steps 200000 --losses SeesawLoss

A row is a linear classifier of 64 categories that is trained with batches of 128. Tensors are those that Python can
reach, after collecting garbage; MB is the resident set of the process, for all rows the same one. Linux only.
"""

import argparse
import gc
import os
from typing import NamedTuple

import torch
from torch import nn

import equigrad

NUM_CLASSES, NUM_FEATURES, BATCH_SIZE = 64, 32, 128
COUNTS = [2000 // (rank + 1) for rank in range(NUM_CLASSES)]
LOSSES = {
    "SigmoidEqualizationLoss": lambda: equigrad.SigmoidEqualizationLoss(NUM_CLASSES),
    "SoftmaxEqualizationLoss": lambda: equigrad.SoftmaxEqualizationLoss(NUM_CLASSES),
    "EqualizedFocalLoss": lambda: equigrad.EqualizedFocalLoss(NUM_CLASSES),
    "EqualizedQualityFocalLoss": lambda: equigrad.EqualizedQualityFocalLoss(NUM_CLASSES),
    "FocalEqualizationLoss": lambda: equigrad.FocalEqualizationLoss(NUM_CLASSES),
    "SeesawLoss": lambda: equigrad.SeesawLoss(NUM_CLASSES),
    "GroupedSoftmaxLoss": lambda: equigrad.GroupedSoftmaxLoss(COUNTS),
    "FederatedLoss": lambda: equigrad.FederatedLoss(COUNTS),
    "DistillationLoss": lambda: equigrad.DistillationLoss(equigrad.SoftmaxEqualizationLoss(NUM_CLASSES)),
}


class Usage(NamedTuple):
    """What a process has at one moment."""

    tensors: int
    files: int
    megabytes: float

    @classmethod
    def now(cls) -> "Usage":
        gc.collect()
        tensors = sum(issubclass(type(item), torch.Tensor) for item in gc.get_objects())
        with open("/proc/self/statm") as statm:
            pages = int(statm.read().split()[1])
        return cls(tensors, len(os.listdir("/proc/self/fd")), pages * os.sysconf("SC_PAGE_SIZE") / 2**20)


def train(name: str, early: int, steps: int) -> tuple[Usage, Usage]:
    """Usage after `early` steps and after all."""
    torch.manual_seed(0)
    criterion = LOSSES[name]()
    num_logits = criterion.num_logits if name == "GroupedSoftmaxLoss" else NUM_CLASSES
    classifier = nn.Linear(NUM_FEATURES, num_logits)
    optimizer = torch.optim.SGD(classifier.parameters(), lr=0.01, momentum=0.9)
    frequency = torch.tensor(COUNTS, dtype=torch.float32)
    first = None
    for step in range(1, steps + 1):
        features = torch.randn(BATCH_SIZE, NUM_FEATURES)
        targets = [torch.multinomial(frequency, BATCH_SIZE, replacement=True)]
        if name == "EqualizedQualityFocalLoss":
            targets.append(torch.rand(BATCH_SIZE))
        if name == "DistillationLoss":
            targets.append(torch.randn(BATCH_SIZE, NUM_CLASSES))
        criterion(classifier(features), *targets).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == early:
            first = Usage.now()
    return first or Usage.now(), Usage.now()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--early", type=int, default=1_000, help="step of the first look")
    parser.add_argument("--losses", nargs="+", default=list(LOSSES), choices=list(LOSSES))
    parsed = parser.parse_args()
    torch.set_num_threads(1)
    print(f"| loss | tensors at {parsed.early:,} | at {parsed.steps:,} | open files | | MB | |")
    print("|---|---|---|---|---|---|---|")
    for name in parsed.losses:
        early, late = train(name, parsed.early, parsed.steps)
        pairs = zip(early[:2], late[:2], strict=True)
        cells = [str(value) for pair in pairs for value in pair] + [f"{usage.megabytes:.1f}" for usage in (early, late)]
        print(f"| `{name}` | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
