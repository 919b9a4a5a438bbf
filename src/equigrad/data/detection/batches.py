"""Batches of detection items: images are padded to a common size."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from equigrad.data.detection.geometry import Item, Target, paste, size_of
from equigrad.data.detection.object_masks import ObjectMasks

Batch = tuple[Tensor, list[Target]]


def collate_detection(items: Sequence[Item], stride: int = 32, *, fill: int | Sequence[int] = 0) -> Batch:
    """Images (B, 3, H, W) of uint8, padded at the right and the bottom, and a list of targets of plain tensors.

    Each target gets `image_size`, the height and width without padding, unless a transform has set it already. Masks
    become `ObjectMasks` of the size of their image. Numbers and other values stay as they are: as tensors they would go
    to the device, and reading them there would make the host wait.

    Args:
        items: images with their targets.
        stride: H and W are multiples of it.
        fill: value of the padding, or one value for each channel. With the mean colour, a network that subtracts the
            mean sees zeros there.
    """
    sizes = [size_of(image) for image, _ in items]
    height, width = (-(-max(sides) // stride) * stride for sides in zip(*sizes, strict=True))
    background = torch.as_tensor(fill, dtype=torch.uint8).reshape(-1, 1, 1).expand(3, height, width)
    images = background.repeat(len(items), 1, 1, 1)
    for canvas, (image, _) in zip(images, items, strict=True):
        paste(canvas, image.as_subclass(Tensor), 0, 0)
    targets = [{"image_size": size} | target for (_, target), size in zip(items, sizes, strict=True)]
    return images, [{name: _plain(name, value) for name, value in target.items()} for target in targets]


def _plain(name: str, value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    if name == "masks":  # dense
        return ObjectMasks.of(value.as_subclass(Tensor))
    # A view would send its whole storage from the worker to the training process.
    return value.as_subclass(Tensor).clone()
