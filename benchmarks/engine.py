"""Overhead of the training engine over a bare PyTorch loop, as a ratio in one process.

    python benchmarks/engine.py                 # steps of about 20 ms on one thread, data read by two processes
    python benchmarks/engine.py --workers 0     # data read by the training itself, random numbers seeded per sample

Both train the same network on the same data with the same optimiser. They take turns in blocks of steps, so that a slow
moment of the machine hits both; the ratio is that of the median step times. The engine logs, writes events, takes
snapshots of the statistics and saves checkpoints as it does by default; a block includes what falls into it.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from equigrad import SigmoidEqualizationLoss
from equigrad.engine import SGD, Schedule, TrainSettings, launch, train
from equigrad.sampling import RepeatFactorSampler

NUM_CLASSES, NUM_FEATURES, BATCH_SIZE = 1000, 64, 32


class Vectors:
    def __init__(self, num_samples: int) -> None:
        self.vectors = torch.randn(num_samples, NUM_FEATURES)

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.vectors[index], index % NUM_CLASSES


class Network(nn.Module):
    """As wide as it takes for a step to last 20 ms."""

    def __init__(self, width: int, before_step: Callable[[], None]) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(NUM_FEATURES, width), nn.ReLU(), nn.Linear(width, NUM_CLASSES))
        self.criterion = SigmoidEqualizationLoss(NUM_CLASSES)
        self.before_step = before_step

    def forward(self, images: Tensor, targets: Tensor) -> dict[str, Tensor]:
        self.before_step()
        return {"classification": self.criterion(self.layers(images), targets)}


def bare_loop(network: Network, dataset: Vectors, num_workers: int) -> Iterator[None]:
    """One step per `next`."""
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    while True:
        loader = DataLoader(dataset, BATCH_SIZE, shuffle=True, num_workers=num_workers, drop_last=True)
        for images, targets in loader:
            optimizer.zero_grad(set_to_none=True)
            sum(network(images, targets).values()).backward()
            optimizer.step()
            yield


class Turns:
    """Called by the engine's model before every step: times blocks, and lets the bare loop run between them."""

    def __init__(self, bare: Iterator[None], block: int) -> None:
        self.bare, self.block = bare, block
        self.calls = 0
        self.start = 0.0
        self.seconds: dict[str, list[float]] = {"engine": [], "bare": []}

    def __call__(self) -> None:
        if self.calls % self.block == 0:
            if self.calls:
                self.seconds["engine"].append((time.perf_counter() - self.start) / self.block)
            start = time.perf_counter()
            for _ in range(self.block):
                next(self.bare)
            self.seconds["bare"].append((time.perf_counter() - start) / self.block)
            self.start = time.perf_counter()
        self.calls += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--block", type=int, default=10)
    parser.add_argument("--width", type=int, default=5200)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    fabric = launch(accelerator="cpu")
    dataset = Vectors(BATCH_SIZE * 500)
    turns = Turns(bare_loop(Network(arguments.width, lambda: None), dataset, arguments.workers), arguments.block)
    settings = TrainSettings(
        optimizer=SGD(0.01),
        schedule=Schedule(steps=arguments.steps),
        batch_size=BATCH_SIZE,
        num_workers=arguments.workers,
    )
    sampler = RepeatFactorSampler([0] * len(dataset), drop_last=True)
    with tempfile.TemporaryDirectory() as folder:
        train(fabric, Network(arguments.width, turns), dataset, sampler, settings, Path(folder, "run"))
    medians = {name: statistics.median(seconds) for name, seconds in turns.seconds.items()}
    print(f"bare {1e3 * medians['bare']:.2f} ms, engine {1e3 * medians['engine']:.2f} ms per step", end="; ")
    print(f"overhead {100 * (medians['engine'] / medians['bare'] - 1):+.1f} %")


if __name__ == "__main__":
    main()
