"""What the sum over ranks costs a step: two processes on one machine, gloo.

    python benchmarks/ranks.py                     # a step of the loss alone
    python benchmarks/ranks.py --resnet50 4        # a step of ResNet-50 with four images of 224 pixels on each rank
    python benchmarks/ranks.py --gradients         # the sum of the gradients of ResNet-50, without a step

A step of the loss is forward, statistics and backward of Sigmoid-EQL on 1,024 rows in float32. That of ResNet-50 is of
a classifier with this loss in DistributedDataParallel; beyond 10,000 categories its last layer has 128 inputs. The
collective is that of the statistics, 2C + 1 float64 numbers. Medians of rank 0, and the fastest repeat: on a busy
machine a rank waits for the other to get a core, and the median shows that.
"""

import statistics
import tempfile
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torchvision.models import resnet50

import equigrad
from equigrad.statistics import sum_over_ranks

NUM_ROWS = 1024
MAX_WIDE_CLASSES = 10_000


def times(call: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Median and minimum milliseconds of a call that both ranks make at the same time."""
    found = []
    for _ in range(repeats):
        dist.barrier()
        start = time.perf_counter()
        call()
        found.append(1000 * (time.perf_counter() - start))
    return statistics.median(found), min(found)


def loss_step(num_classes: int) -> Callable[[], None]:
    criterion = equigrad.SigmoidEqualizationLoss(num_classes)
    logits = torch.randn(NUM_ROWS, num_classes, requires_grad=True)
    labels = torch.randint(num_classes, (NUM_ROWS,))
    return lambda: criterion(logits, labels).backward()


def classifier(num_classes: int) -> nn.Module:
    network = resnet50(num_classes=128 if num_classes > MAX_WIDE_CLASSES else num_classes)
    last = nn.Linear(128, num_classes) if num_classes > MAX_WIDE_CLASSES else nn.Identity()
    return nn.Sequential(network, last)


def gradient_sum(num_classes: int) -> Callable[[], None]:
    """What DistributedDataParallel does at least: one sum of all gradients, with no step around it."""
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in classifier(num_classes).parameters())
    gradients = torch.zeros(size)
    return lambda: dist.all_reduce(gradients)


def resnet50_step(num_classes: int, num_images: int) -> Callable[[], None]:
    model = DistributedDataParallel(classifier(num_classes))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    criterion = equigrad.SigmoidEqualizationLoss(num_classes)
    images, labels = torch.randn(num_images, 3, 224, 224), torch.randint(num_classes, (num_images,))

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        criterion(model(images), labels).backward()
        optimizer.step()

    return step


def measure(rank: int, store: Path, sizes: list[int], repeats: int, build: Callable[[int], Callable[[], None]]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=store.as_uri(), rank=rank, world_size=2)
    for num_classes in sizes:
        call = build(num_classes)
        call()
        step = times(call, repeats if build is loss_step else max(repeats // 4, 2))
        sums = torch.rand(2 * num_classes + 1, dtype=torch.float64)
        collective = times(lambda: sum_over_ranks(sums), repeats)  # noqa: B023
        if rank == 0:
            cells = " | ".join(f"{value:.2f}" for value in (*step, *collective))
            print(f"| {num_classes} | {cells} | {collective[0] / step[0]:.2%} |", flush=True)
    dist.destroy_process_group()


def main() -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--classes", nargs="+", type=int, default=[1203, 100_000])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--resnet50", type=int, metavar="IMAGES", help="a step of this network, with so many images")
    parser.add_argument("--gradients", action="store_true", help="the sum of its gradients, in place of a step")
    arguments = parser.parse_args()
    build: Callable[[int], Callable[[], None]] = gradient_sum if arguments.gradients else loss_step
    if arguments.resnet50:
        build = partial(resnet50_step, num_images=arguments.resnet50)
    print(
        "| C | step, median ms | minimum | collective, median ms | minimum | share |\n|---|---|---|---|---|---|",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(
            measure,
            args=(Path(folder) / "store", arguments.classes, arguments.repeats, build),
            nprocs=2,
        )


if __name__ == "__main__":
    main()
