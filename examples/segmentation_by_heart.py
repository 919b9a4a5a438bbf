"""Can a segmenter overfit a few images? If not, data, labels or network are wrong.

    python examples/segmentation_by_heart.py tiny:segmentation --steps 60
    python examples/segmentation_by_heart.py camvid:deeplabv3plus_lite0 --set data.root=camvid

It takes data, network and loss of a recipe and trains the whole network, without dropout and augmentation, on a few
whole training images, evenly spaced over the set. Every batch has all of them, so batch norms see the same images in
training and in the test. The images must have the same size. The script prints the mIoU on these images, over the
categories that occur in them.
"""

import argparse
import sys
import time

import numpy as np
import torch
from torch import Tensor, nn

from equigrad.data.segmentation.data import SegmentationData
from equigrad.evaluation.segmentation import SegmentationEvaluator
from equigrad.models.segmentation.segmenter import Segmenter
from equigrad.recipes.catalogue import load_recipe
from equigrad.tasks.segmentation.recipe import SegmentationRecipe
from equigrad.tasks.segmentation.run import build_model


def spread(data: SegmentationData, count: int) -> tuple[Tensor, Tensor]:
    """Images (N, 3, H, W) and labels (N, H, W) evenly spaced over a set."""
    chosen = np.linspace(0, len(data) - 1, count).round().astype(int)
    images = np.stack([np.array(data.read_image(index)) for index in chosen])
    labels = np.stack([data.read_labels(index) for index in chosen])
    return torch.from_numpy(images).permute(0, 3, 1, 2), torch.from_numpy(labels).long()


@torch.inference_mode()
def ious(model: Segmenter, images: Tensor, labels: Tensor, data: SegmentationData, counts: Tensor) -> dict[str, float]:
    """IoU in per cent of the categories that occur, lowest first; one image at a time, in evaluation mode."""
    evaluator = SegmentationEvaluator(data.class_names, counts)
    model.eval()
    for image, own in zip(images, labels, strict=True):
        evaluator.add(model(image[None]), {"labels": own[None]})
    model.train()
    found = {row.name: 100 * row.IoU for row in evaluator.per_category() if row.num_pixels}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def learn(recipe: SegmentationRecipe, count: int, steps: int, lr: float) -> None:
    """Train on `count` images and print the progress."""
    data = recipe.data.load()[0].data
    images, labels = spread(data, count)
    counts = labels[labels >= 0].bincount(minlength=data.num_classes)
    print(f"{count} images of {data.source}, {int((counts > 0).sum())} of {data.num_classes} categories", flush=True)
    torch.manual_seed(0)
    model = build_model(recipe, counts.numpy()).to(memory_format=torch.channels_last)
    for module in model.modules():
        if isinstance(module, nn.Dropout | nn.Dropout2d):
            module.p = 0.0
    optimizer = torch.optim.AdamW(model.parameters(), lr, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=steps, pct_start=0.1)
    start = time.perf_counter()
    for step in range(1, steps + 1):
        loss = sum(model(images, {"labels": labels}).values())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if step % max(steps // 10, 1) == 0 or step == steps:
            found = ious(model, images, labels, data, counts)
            rate = step / (time.perf_counter() - start)
            mean = sum(found.values()) / len(found)
            print(f"step {step}/{steps}  {rate:.2f} steps/s  loss {loss.item():.4f}  mIoU {mean:.1f}", flush=True)
    print("lowest: " + ", ".join(f"{name} {iou:.1f}" for name, iou in list(found.items())[:5]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="assignments")
    parser.add_argument("--images", type=int, default=8)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--lr", type=float, default=0.005)
    arguments = parser.parse_args()
    try:
        recipe = load_recipe(arguments.recipe, arguments.assignments).recipe
        if not isinstance(recipe, SegmentationRecipe):
            sys.exit(f"error: {arguments.recipe}: expected a recipe of semantic segmentation")
        learn(recipe, arguments.images, arguments.steps, arguments.lr)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
