"""What pixel-level statistics cost: training steps of the CamVid recipe, against plain cross-entropy.

    python benchmarks/segmentation.py                        # generated frames of CamVid's size
    python benchmarks/segmentation.py --camvid FOLDER        # frames of CamVid

A step is forward, backward and optimiser of DeepLabV3+ on EfficientNet-Lite0 as the recipe trains it, on one
thread. Every loss has a model of its own; all see the same batch in turns, so that a slow moment of the machine hits
all. "Plain" is `nn.CrossEntropyLoss` on the upsampled logits. Time is CPU time; the ratio is the median of the rounds'
ratios. Reading of images, the same for all, is left out: it would bring the ratios of an epoch nearer to 1.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from equigrad.data.segmentation.data import collate_segmentation
from equigrad.engine.optimizers import freeze
from equigrad.models.segmentation.upsampled_loss import LabelResolutionLoss
from equigrad.recipes.camvid import deeplabv3plus_lite0
from equigrad.recipes.methods.segmentation import PAPER_METHODS
from equigrad.tasks.segmentation.run import build_model

RECIPE = deeplabv3plus_lite0()
NUM_CLASSES = 31
Batch = tuple[Tensor, dict[str, Tensor]]


def camvid_batches(folder: Path, batch_size: int) -> Iterator[Batch]:
    """Training crops of the recipe, in the order of the frames, again and again."""
    train_set, _ = replace(RECIPE.data, root=folder).load()
    while True:
        for first in range(0, len(train_set) - batch_size + 1, batch_size):
            yield collate_segmentation([train_set[index] for index in range(first, first + batch_size)])


def generated_batches(batch_size: int) -> Iterator[Batch]:
    """Noise as frames; squares of 16 pixels as regions, one in ten void."""
    height, width = RECIPE.data.crop_size
    generator = torch.Generator().manual_seed(0)
    while True:
        images = torch.randint(256, (batch_size, 3, height, width), dtype=torch.uint8, generator=generator)
        squares = torch.randint(NUM_CLASSES, (batch_size, height // 16, width // 16), generator=generator)
        squares[torch.rand(squares.shape, generator=generator) < 0.1] = -100
        yield images, {"labels": squares.repeat_interleave(16, 1).repeat_interleave(16, 2)}


def training_step(method: str) -> Callable[[Batch], float]:
    """A step with a model of its own; it returns its seconds."""
    torch.manual_seed(0)
    recipe = deeplabv3plus_lite0("ce" if method == "plain" else method)
    model = build_model(recipe, np.ones(NUM_CLASSES, dtype=np.int64)).to(memory_format=torch.channels_last)
    if method == "plain":
        model.classification_loss = LabelResolutionLoss(nn.CrossEntropyLoss())
    model.train()
    for module in freeze(model, recipe.training.frozen):
        module.eval()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.01, momentum=0.9)

    def step(batch: Batch) -> float:
        images, targets = batch
        start = time.process_time()
        model(images.to(memory_format=torch.channels_last), targets)["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()
        return time.process_time() - start

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--camvid", type=Path, metavar="FOLDER", help="of the recipe's data.root")
    parser.add_argument("--rounds", type=int, default=60, help="steps of every loss")
    parser.add_argument("--batch-size", type=int, default=RECIPE.training.batch_size)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    batches = (
        camvid_batches(arguments.camvid, arguments.batch_size)
        if arguments.camvid
        else generated_batches(arguments.batch_size)
    )
    steps = {name: training_step(name) for name in ("plain", *PAPER_METHODS)}
    names = list(steps)
    for step in steps.values():
        step(next(batches))  # what is set up in the first step stays out
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for round_index in range(arguments.rounds):
        batch = next(batches)
        for place in range(len(names)):
            name = names[(round_index + place) % len(names)]  # nobody is always first
            seconds[name].append(steps[name](batch))
    print("| loss | ms per step | ratio to plain CE |")
    print("|---|---|---|")
    for name in names:
        ratios = [mine / plain for mine, plain in zip(seconds[name], seconds["plain"], strict=True)]
        print(f"| {name} | {1e3 * statistics.median(seconds[name]):.0f} | {statistics.median(ratios):.3f} |")


if __name__ == "__main__":
    main()
