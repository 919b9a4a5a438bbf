"""From items of detection to batches: padding to a common size, and one size drawn for a whole batch."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torchvision.transforms.v2 import functional  # type: ignore[import-untyped]

from equigrad.data.detection.geometry import Item, Size, Target, paste, resize_masks, size_of

Batch = tuple[Tensor, list[Target]]


def collate_detection(items: Sequence[Item], stride: int = 32, *, fill: int | Sequence[int] = 0) -> Batch:
    """Images (B, 3, H, W) of uint8, padded at the right and the bottom, and a list of targets of plain tensors.

    `image_size`, height and width without padding, is added unless a transform that padded has noted it. Masks keep
    the size of their image. What of a target is no number stays as it is.

    Args:
        items: images and their targets.
        stride: H and W are its multiples.
        fill: value of the padding, or one for each channel. A network that subtracts a mean from the padded batch sees
            zeros there if this is the mean.
    """
    sizes = [size_of(image) for image, _ in items]
    height, width = (-(-max(sides) // stride) * stride for sides in zip(*sizes, strict=True))
    background = torch.as_tensor(fill, dtype=torch.uint8).reshape(-1, 1, 1).expand(3, height, width)
    images = background.repeat(len(items), 1, 1, 1)
    for canvas, (image, _) in zip(images, items, strict=True):
        paste(canvas, image.as_subclass(Tensor), 0, 0)
    targets = [{"image_size": size} | target for (_, target), size in zip(items, sizes, strict=True)]
    return images, [{name: _plain(value) for name, value in target.items()} for target in targets]


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        # A part of a larger tensor would send all of it from the worker to the training.
        return value.as_subclass(Tensor).contiguous()
    parts = value if isinstance(value, tuple) else (value,)
    return torch.tensor(value) if all(isinstance(part, int | float) for part in parts) else value


def resize_batch(images: Tensor, targets: Sequence[Target], size: Size) -> Batch:
    """A collated batch and its boxes, masks and image sizes at another size; on the CPU."""
    old = size_of(images)
    if size == old:
        return images, list(targets)
    resized: Tensor = functional.resize(images, list(size), antialias=True)
    return resized, [_resized_target(target, size[0] / old[0], size[1] / old[1]) for target in targets]


def _resized_target(target: Target, down: float, across: float) -> Target:
    factor = target["boxes"].new_tensor([across, down, across, down])
    image_size = (target["image_size"] * factor[[1, 0]]).round().long()
    result = target | {"boxes": target["boxes"] * factor, "image_size": image_size}
    if "masks" in target:
        height, width = size_of(target["masks"])
        result["masks"] = resize_masks(target["masks"], (round(height * down), round(width * across)))
    return result


def size_at(epoch: int, step: int, *, sizes: Sequence[int], every: int = 10, seed: int = 0) -> int:
    """The size of all batches of a step of an epoch, the same on every rank; it may change after `every` steps."""
    return random.Random(f"{seed} {epoch} {step // every}").choice(sizes)


@dataclass
class MultiScaleCollate:
    """`collate_detection`, then the whole batch at a size drawn for some steps, as YOLOX does; for square images.

    `set_step` must be called before each batch: the size depends on seed and step alone, whatever worker reads it.

    Args:
        sizes: to choose from.
        every: how many steps share a size.
        seed: of the choice.
        stride: of the padding.
        fill: of the padding.
    """

    sizes: Sequence[int]
    every: int = 10
    seed: int = 0
    stride: int = 32
    fill: int = 0
    _size: int | None = field(default=None, init=False)

    def set_step(self, epoch: int, step: int) -> None:
        """Say which step of which epoch the next batch belongs to."""
        self._size = size_at(epoch, step, sizes=self.sizes, every=self.every, seed=self.seed)

    def __call__(self, items: Sequence[Item]) -> Batch:
        """The batch at the size of its step."""
        if self._size is None:
            raise ValueError("MultiScaleCollate needs set_step(epoch, step) before the first batch")
        images, targets = collate_detection(items, self.stride, fill=self.fill)
        return resize_batch(images, targets, (self._size, self._size))
