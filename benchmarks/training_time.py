"""What the equalization losses cost in training: steps of the paper's models against the plain loss.

    python benchmarks/training_time.py
    python benchmarks/training_time.py --only detection --rounds 12

A step is forward and backward of the model of a recipe, without weights, on noise, on one thread; statistics are
gathered. The two losses take turns on the same batch, so that a slow moment of the machine hits both. Time is CPU time;
the ratio is the median of the rounds' ratios. On small images the loss has a larger share of the step than on those of
the paper.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from equigrad.recipes.table_rows import RowRecipe
from equigrad.tasks.backbones import without_weights
from equigrad.tasks.categories import TrainedCategories
from equigrad.tasks.classification.recipe import ClassificationRecipe
from equigrad.tasks.classification.run import build_model as build_classifier
from equigrad.tasks.detection.run import build_model as build_detector

PAIRS = {
    "classification": [
        ("image_classification:inaturalist18_resnet50", "ce", "softmax_eql", 8142),
        ("image_classification:inaturalist18_resnet50", "bce", "sigmoid_eql", 8142),
    ],
    "detection": [
        ("two_stage:lvis_mask_rcnn_r50", "ce", "softmax_eql", 1203),
        ("two_stage:components", "none", "obj_neg_pos", 1203),
        ("one_stage:lvis_r50", "baseline", "efl", 1203),
    ],
}
Batch = tuple[Any, ...]


def training_step(row: RowRecipe, num_classes: int, batch: Batch) -> Callable[[], float]:
    """A step with a model of its own; it returns its seconds."""
    recipe: Any = row.load()
    recipe = replace(recipe, backbone=without_weights(recipe.backbone))
    counts = np.maximum(1000 // np.arange(1, num_classes + 1), 1)
    torch.manual_seed(0)
    if isinstance(recipe, ClassificationRecipe):
        model = build_classifier(recipe, counts)
    else:
        names = tuple(map(str, range(num_classes)))
        model = build_detector(recipe, TrainedCategories(names, ("frequent",) * num_classes, counts, counts))
    model.train()

    def step() -> float:
        torch.manual_seed(1)  # the same RoIs are drawn
        start = time.process_time()
        losses = model(*batch)
        (losses["loss"] if "loss" in losses else sum(losses.values())).backward()
        seconds = time.process_time() - start
        model.zero_grad()
        return seconds

    return step


def noise(task: str, num_classes: int, size: int) -> Batch:
    """Images with a label each, or with eight boxes."""
    generator = torch.Generator().manual_seed(0)
    num_images = 8 if task == "classification" else 2
    images = torch.randint(256, (num_images, 3, size, size), dtype=torch.uint8, generator=generator)
    if task == "classification":
        return images, {"labels": torch.randint(num_classes, (num_images,), generator=generator)}
    targets = []
    for _ in range(num_images):
        start = torch.rand(8, 2, generator=generator) * size * 0.6
        boxes = torch.cat([start, start + size * 0.3], 1)
        masks = torch.zeros(8, size, size, dtype=torch.uint8)
        for mask, (x1, y1, x2, y2) in zip(masks, boxes.int().tolist(), strict=True):
            mask[y1:y2, x1:x2] = 1
        labels = torch.randint(num_classes, (8,), generator=generator)
        targets.append({"boxes": boxes, "labels": labels, "masks": masks})
    return images, targets


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PAIRS, help="one task")
    parser.add_argument("--rounds", type=int, default=8, help="steps of every loss")
    parser.add_argument("--size", type=int, default=192, help="of the images, in pixels")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("| model | plain | equalized | ms per step | ratio |\n|---|---|---|---|---|")
    for task in [arguments.only] if arguments.only else PAIRS:
        for name, plain, equalized, num_classes in PAIRS[task]:
            batch = noise(task, num_classes, arguments.size)
            steps = [training_step(RowRecipe(name, method), num_classes, batch) for method in (plain, equalized)]
            for step in steps:
                step()  # what is set up in the first step stays out
            times = [[step() for step in steps[:: 1 if turn % 2 else -1]] for turn in range(arguments.rounds)]
            pairs = [pair if turn % 2 else pair[::-1] for turn, pair in enumerate(times)]
            ratio = statistics.median(second / first for first, second in pairs)
            median = 1e3 * statistics.median(second for _, second in pairs)
            print(f"| {name} | {plain} | {equalized} | {median:.0f} | {ratio:.3f} |", flush=True)


if __name__ == "__main__":
    main()
