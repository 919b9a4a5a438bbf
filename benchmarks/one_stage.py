"""One-stage detectors: memory of a training step, time of post-processing, time beside torchvision's detectors.

    python benchmarks/one_stage.py memory          # EFL beside the cheapest loss: improved baseline, 1203 categories
    python benchmarks/one_stage.py inference       # post-processing as a share of the forward pass
    python benchmarks/one_stage.py torchvision     # forward and backward of RetinaNet and FCOS, in one process
    python benchmarks/one_stage.py memory --size 400x672

Networks are ResNet-50-FPN with random weights, the same for all, batch 1, on one thread. Memory is the peak of the
resident set of a process of its own above what was there before the step. Time is that of the process, in the best of
the runs. Linux only.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torchvision.models.detection import FCOS, RetinaNet
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
from torchvision.ops.feature_pyramid_network import LastLevelP6P7

import equigrad
from equigrad.models.detection.one_stage.atss import improved_atss
from equigrad.models.detection.one_stage.fcos import fcos
from equigrad.models.detection.one_stage.retinanet import retinanet
from equigrad.models.detection.pyramids.resnet_fpn import ResNetFPN, resnet50_fpn

LOSSES = {
    "BinaryCrossEntropyLoss": lambda num_classes: equigrad.BinaryCrossEntropyLoss(),
    "FocalLoss": lambda num_classes: equigrad.FocalLoss(),
    "EqualizedFocalLoss": equigrad.EqualizedFocalLoss,
    "QualityFocalLoss": lambda num_classes: equigrad.QualityFocalLoss(),
    "EqualizedQualityFocalLoss": equigrad.EqualizedQualityFocalLoss,
}
NUM_CLASSES = 1203  # LVIS v1
COCO_CLASSES = 91


def batch(size: tuple[int, int], num_classes: int, num_objects: int = 12) -> tuple[Tensor, list[dict[str, Tensor]]]:
    """A noisy image and boxes all over it."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (1, 3, *size), dtype=torch.uint8, generator=generator)
    corners = torch.rand(num_objects, 2, generator=generator) * torch.tensor([size[1] * 0.7, size[0] * 0.7])
    sides = 20 + torch.rand(num_objects, 2, generator=generator) * torch.tensor([size[1] * 0.25, size[0] * 0.25])
    labels = torch.randint(0, num_classes, (num_objects,), generator=generator)
    return images, [{"boxes": torch.cat([corners, corners + sides], 1), "labels": labels}]


def resident(field: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


def seconds(step: Callable[[], object], runs: int) -> float:
    """Process time of the best run."""
    times = []
    for _ in range(runs):
        start = time.process_time()
        step()
        times.append(time.process_time() - start)
    return min(times)


def train_step(model: nn.Module, images: Any, targets: list[dict[str, Tensor]]) -> None:
    """Forward and backward."""
    model.zero_grad()
    torch.stack(list(model(images, targets).values())).sum().backward()


def pyramid() -> ResNetFPN:
    """ResNet-50-FPN with the weights torchvision starts from."""
    network = resnet50_fpn()
    network.load_state_dict(torchvision_backbone().state_dict())
    return network


def torchvision_backbone() -> nn.Module:
    torch.manual_seed(0)
    network = resnet_fpn_backbone(
        backbone_name="resnet50",
        weights=None,
        trainable_layers=3,
        returned_layers=[2, 3, 4],
        extra_blocks=LastLevelP6P7(256, 256),
    )
    for name, scale in network.named_buffers():
        if name.endswith("bn3.weight"):
            scale.fill_(0.2)  # frozen norms that never saw data would let the maps grow with every block
    return network


def baseline(loss: str) -> nn.Module:
    """The improved baseline of LVIS."""
    criterion = LOSSES[loss](NUM_CLASSES)
    scores = equigrad.SigmoidScores()
    return improved_atss(pyramid(), NUM_CLASSES, criterion, scores, with_quality="Quality" in loss).train()


def measure_memory(loss: str, size: tuple[int, int]) -> None:
    """One row of the table: peak of a step in MB, and its seconds."""
    model = baseline(loss)
    train_step(model, *batch((128, 128), NUM_CLASSES))  # what is loaded with the first step stays out of the figure
    model.zero_grad()
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again from here
    before = resident("VmRSS")
    took = seconds(partial(train_step, model, *batch(size, NUM_CLASSES)), 1)
    print(f"{(resident('VmHWM') - before) / 2**20:.0f} {took:.1f}")


def compare_memory(losses: list[str], size: str) -> None:
    print("| loss | MB | beside the first | s |")
    print("|---|---|---|---|", flush=True)
    first = None
    for loss in losses:
        command = [sys.executable, __file__, "memory", "--row", "--size", size, "--losses", loss]
        shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        megabytes, took = float(shown[0]), float(shown[1])
        first = megabytes if first is None else first
        print(f"| {loss} | {megabytes:.0f} | {megabytes / first:.3f} | {took:.1f} |", flush=True)


def measure_inference(size: tuple[int, int], runs: int) -> None:
    model = baseline("EqualizedFocalLoss").eval()
    images, _ = batch(size, NUM_CLASSES)
    with torch.no_grad():
        outputs = model.outputs(images)
        forward = seconds(lambda: model.outputs(images), runs)
        detect = seconds(lambda: model.detections(outputs, [size]), runs)
    print(f"forward {forward:.2f} s, post-processing {detect:.2f} s: {detect / forward:.1%}")


def compare_torchvision(size: tuple[int, int], runs: int) -> None:
    images, targets = batch(size, COCO_CLASSES)
    floats = [image.float() / 255 for image in images]
    print("| detector | torchvision s | equigrad s | ratio |")
    print("|---|---|---|---|", flush=True)
    for build, their_class in ((retinanet, RetinaNet), (fcos, FCOS)):
        ours = build(pyramid(), COCO_CLASSES, equigrad.FocalLoss(), equigrad.SigmoidScores()).train()
        theirs = their_class(torchvision_backbone(), COCO_CLASSES, min_size=min(size), max_size=max(size)).train()
        steps = (partial(train_step, theirs, floats, targets), partial(train_step, ours, images, targets))
        # In turn, so that a busy machine slows both; the first of each warms up.
        times = [[seconds(step, 1) for step in steps] for _ in range(runs + 1)][1:]
        their_best, our_best = (min(column) for column in zip(*times, strict=True))
        name = their_class.__name__
        print(f"| {name} | {their_best:.2f} | {our_best:.2f} | {our_best / their_best:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["memory", "inference", "torchvision"])
    parser.add_argument("--size", default="800x1333", help="height and width")
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=["BinaryCrossEntropyLoss", "EqualizedFocalLoss"])
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--row", action="store_true", help="one row, in this process")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    height, width = map(int, arguments.size.split("x"))
    if arguments.row:
        measure_memory(arguments.losses[0], (height, width))
    elif arguments.what == "memory":
        compare_memory(arguments.losses, arguments.size)
    elif arguments.what == "inference":
        measure_inference((height, width), arguments.runs)
    else:
        compare_torchvision((height, width), arguments.runs)


if __name__ == "__main__":
    main()
