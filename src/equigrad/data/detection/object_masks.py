"""Masks of the objects of an image, each kept inside the bounding box of its object.

Dense masks (K, H, W) of an image of LVIS with 300 objects at 800 x 1333 are 320 MB; inside their boxes they are a few.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Size = tuple[int, int]  # height, width
Window = tuple[int, int, int, int]  # left, top, right, bottom
Pixels = NDArray[np.uint8]
Part = tuple[int, int, Pixels]
"""Left and top of a window, and the pixels (h, w) in it."""

_NOTHING: Part = (0, 0, np.zeros((0, 0), np.uint8))


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
    def of_parts(cls, parts: Sequence[Part], size: Size) -> Self:
        """From the pixels in a window of each object."""
        windows = [(left, top, left + pixels.shape[1], top + pixels.shape[0]) for left, top, pixels in parts]
        flat = [pixels.ravel() for _, _, pixels in parts]
        return cls(torch.from_numpy(np.concatenate(flat) if flat else np.zeros(0, np.uint8)), windows, size)

    @classmethod
    def of(cls, masks: Tensor) -> Self:
        """From dense masks (K, H, W)."""
        boxes = tight_boxes(masks).int().tolist()
        parts = [
            (left, top, mask[top:bottom, left:right].numpy())
            for mask, (left, top, right, bottom) in zip(masks, boxes, strict=True)
        ]
        return cls.of_parts(parts, (masks.shape[1], masks.shape[2]))

    @classmethod
    def joined(cls, several: Sequence["ObjectMasks"]) -> Self:
        """The masks of all, of the same canvas, one after the other."""
        windows = [window for masks in several for window in masks.windows]
        return cls(torch.cat([masks.pixels for masks in several]), windows, several[0].size)

    def __len__(self) -> int:
        return len(self.windows)

    def dense(self, objects: Sequence[int] | None = None) -> Tensor:
        """The masks (n, H, W) of the objects with these indices; of all without."""
        chosen = range(len(self)) if objects is None else objects
        masks = self.pixels.new_zeros((len(chosen), *self.size))
        parts = torch.split(self.pixels, [_area(window) for window in self.windows])
        for mask, index in zip(masks, chosen, strict=True):
            left, top, right, bottom = self.windows[index]
            mask[top:bottom, left:right] = parts[index].view(bottom - top, right - left)
        return masks

    def to(self, device: torch.device) -> "ObjectMasks":
        """The same on a device."""
        return ObjectMasks(self.pixels.to(device, non_blocking=True), self.windows, self.size)

    def pin_memory(self) -> "ObjectMasks":
        """The same in memory that is copied to a GPU without waiting; the loader calls it."""
        return ObjectMasks(self.pixels.pin_memory(), self.windows, self.size)

    def select(self, chosen: Tensor) -> "ObjectMasks":
        """The masks of some objects; `chosen` is (K,) bool."""
        parts = [part for part, is_chosen in zip(self._parts(), chosen.tolist(), strict=True) if is_chosen]
        return ObjectMasks.of_parts(parts, self.size)

    def tight_boxes(self) -> Tensor:
        """Bounding boxes (K, 4) of the pixels; zeros for an empty mask."""
        boxes = [_cut_to_pixels(part) for part in self._parts()]
        corners = [(left, top, left + pixels.shape[1], top + pixels.shape[0]) for left, top, pixels in boxes]
        return torch.tensor(corners, dtype=torch.float32).reshape(-1, 4)

    def mirrored(self) -> "ObjectMasks":
        """Left and right exchanged."""
        width = self.size[1]
        return self._moved(lambda left, top, part: (width - left - part.shape[1], top, part[:, ::-1]), self.size)

    def resized(self, size: Size) -> "ObjectMasks":
        """Each new pixel takes the value of the nearest old pixel centre."""
        rows, columns = (
            ((np.arange(new) + 0.5) * (old / new)).astype(np.intp) for new, old in zip(size, self.size, strict=True)
        )

        def resize(left: int, top: int, part: Pixels) -> Part:
            first_row, last_row = np.searchsorted(rows, [top, top + part.shape[0]]).tolist()
            first_column, last_column = np.searchsorted(columns, [left, left + part.shape[1]]).tolist()
            picked = part.take(columns[first_column:last_column] - left, axis=1)
            return first_column, first_row, picked.take(rows[first_row:last_row] - top, axis=0)

        return self._moved(resize, size)

    def shifted(self, down: int, right: int, size: Size) -> "ObjectMasks":
        """On a canvas where the corner of the image is at (down, right); what lies outside the canvas is cut off."""
        height, width = size

        def shift(left: int, top: int, part: Pixels) -> Part:
            left, top = left + right, top + down
            cut = part[max(-top, 0) : max(height - top, 0), max(-left, 0) : max(width - left, 0)]
            return (max(left, 0), max(top, 0), cut) if cut.size else _NOTHING

        return self._moved(shift, size)

    def warped(self, matrix: Tensor, size: Size) -> "ObjectMasks":
        """Under the affine map `matrix` (2, 3) of points (x, y): every pixel centre of the canvas looks up its source.

        Args:
            matrix: from the canvas to this image.
            size: height and width of the canvas.
        """
        full = np.concatenate([matrix.double().numpy(), [[0.0, 0.0, 1.0]]])
        forward = np.linalg.inv(full)[:2]

        def warp(left: int, top: int, part: Pixels) -> Part:
            bottom, right = top + part.shape[0], left + part.shape[1]
            corners = forward @ np.array([[left, right, left, right], [top, top, bottom, bottom], [1, 1, 1, 1]])
            # One pixel more on each side: the map back is rounded to float32.
            first = np.clip(np.floor(corners.min(1)) - 1, 0, size[::-1]).astype(int)
            last = np.clip(np.ceil(corners.max(1)) + 1, 0, size[::-1]).astype(int)
            columns, rows = (torch.arange(int(a), int(b)) + 0.5 for a, b in zip(first, last, strict=True))
            x, y = (a * columns + b * rows[:, None] + c for a, b, c in matrix.float())
            is_inside = ((x >= left) & (x < right) & (y >= top) & (y < bottom)).numpy()
            looked_up = np.zeros(is_inside.shape, np.uint8)
            looked_up[is_inside] = part[y.long().numpy()[is_inside] - top, x.long().numpy()[is_inside] - left]
            return int(first[0]), int(first[1]), looked_up

        return self._moved(warp, size)

    def _moved(self, move: Callable[[int, int, Pixels], Part], size: Size) -> "ObjectMasks":
        return ObjectMasks.of_parts([move(*part) if part[2].size else _NOTHING for part in self._parts()], size)

    def _parts(self) -> Iterator[Part]:
        pixels = torch.split(self.pixels, [_area(window) for window in self.windows])
        for (left, top, right, bottom), part in zip(self.windows, pixels, strict=True):
            yield left, top, part.numpy().reshape(bottom - top, right - left)


def tight_boxes(masks: Tensor) -> Tensor:
    """Bounding boxes (K, 4) of masks (K, H, W); zeros for an empty mask."""
    num_objects, height, width = masks.shape
    if num_objects == 0:
        return torch.zeros(0, 4)
    columns, rows = (masks.amax(axis).gt(0).byte() for axis in (1, 2))  # (K, W), (K, H)
    ends = [columns.argmax(1), rows.argmax(1), width - columns.flip(1).argmax(1), height - rows.flip(1).argmax(1)]
    is_there = rows.amax(1) > 0
    return torch.stack(ends, dim=1).float() * is_there[:, None]


def _cut_to_pixels(part: Part) -> Part:
    left, top, pixels = part
    rows, columns = np.flatnonzero(pixels.any(1)), np.flatnonzero(pixels.any(0))
    if not len(rows):
        return _NOTHING
    inside = pixels[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    return left + int(columns[0]), top + int(rows[0]), inside


def _area(window: Window) -> int:
    left, top, right, bottom = window
    return (right - left) * (bottom - top)
