"""Masks of a batch, each kept inside the bounding box of its object.

Dense masks (K, H, W) of an image of LVIS with 300 objects at 800 x 1333 are 320 MB; inside their boxes they are a few.
"""

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from equigrad.data.detection.geometry import Size, size_of, tight_boxes

Window = tuple[int, int, int, int]  # left, top, right, bottom


class ObjectMasks:
    """Masks of K objects of an image.

    Args:
        pixels: 0 and 1 inside the windows, row by row, one object after the other; (N,) uint8, on any device.
        windows: part of the image that the pixels of each object fill; numbers of the host, so that nothing waits.
        size: height and width of the image.
    """

    def __init__(self, pixels: Tensor, windows: Sequence[Window], size: Size) -> None:
        self.pixels = pixels
        self.windows = windows
        self.size = size

    @classmethod
    def of(cls, masks: Tensor) -> Self:
        """From dense masks (K, H, W)."""
        windows: list[Window] = [tuple(box) for box in tight_boxes(masks).int().tolist()]
        parts = [
            mask[top:bottom, left:right].flatten()
            for mask, (left, top, right, bottom) in zip(masks, windows, strict=True)
        ]
        pixels = torch.cat(parts) if parts else masks.new_zeros(0)
        return cls(pixels, windows, size_of(masks))

    def __len__(self) -> int:
        return len(self.windows)

    def dense(self, objects: Sequence[int]) -> Tensor:
        """The masks (n, H, W) of the objects with these indices."""
        masks = self.pixels.new_zeros((len(objects), *self.size))
        areas = [(right - left) * (bottom - top) for left, top, right, bottom in self.windows]
        parts = torch.split(self.pixels, areas)
        for mask, index in zip(masks, objects, strict=True):
            left, top, right, bottom = self.windows[index]
            mask[top:bottom, left:right] = parts[index].view(bottom - top, right - left)
        return masks

    def to(self, device: torch.device) -> "ObjectMasks":
        """The same on a device."""
        return ObjectMasks(self.pixels.to(device, non_blocking=True), self.windows, self.size)

    def pin_memory(self) -> "ObjectMasks":
        """The same in memory that is copied to a GPU without waiting; the loader calls it."""
        return ObjectMasks(self.pixels.pin_memory(), self.windows, self.size)
