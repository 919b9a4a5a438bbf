"""Inference of a segmenter: the whole image at once, or windows that overlap; the result has the image's own size.

    WholeImage(Scale(512, 2048))            # ADE20K, as published
    SlidingWindow(512, 341)                 # 512 x 512 windows that share a third

Both are called with the network, from images (N, 3, H, W) to logits (N, K, h, w), images and scores. Maps of all K
categories are at most of the network's input size; they are upsampled to the size of the image some rows at a time.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from equigrad.models.segmentation.upsampling import row_tiles, upsample

Network = Callable[[Tensor], Tensor]
PixelScores = Callable[[Tensor], Tensor]


class PixelLabels(NamedTuple):
    """The category with the highest score at every pixel."""

    labels: Tensor  # (N, H, W) int64
    scores: Tensor  # (N, H, W)


class Scale(NamedTuple):
    """The size at which the network sees an image: the largest of the image's shape within these sides."""

    short_side: int
    long_side: int

    def __call__(self, images: Tensor) -> Tensor:
        """Images (N, 3, h, w), floating point in [0, 1], of images (N, 3, H, W)."""
        height, width = images.shape[-2:]
        factor = min(self.short_side / min(height, width), self.long_side / max(height, width))
        size = (max(1, round(height * factor)), max(1, round(width * factor)))
        pixels = images / 255 if images.dtype == torch.uint8 else images
        return F.interpolate(pixels, size=size, mode="bilinear", antialias=True)


class WholeImage:
    """One pass over the image.

    Args:
        scale: at which the network sees it; None is as it is.
    """

    def __init__(self, scale: Scale | None = None) -> None:
        self.scale = scale

    def __call__(self, network: Network, images: Tensor, scores: PixelScores) -> PixelLabels:
        """Labels of images (N, 3, H, W)."""
        scaled = images if self.scale is None else self.scale(images)
        return best_categories(network(scaled), _size(images), scores)


class SlidingWindow:
    """The mean of overlapping windows; the last window of a row or column ends with the image.

    Args:
        window: side of a window; an image that is smaller is one window.
        stride: from one window to the next.
        averages_scores: take the mean of the scores; False, as published, of the logits.
        scale: at which the network sees the image; None is as it is.
    """

    def __init__(
        self, window: int = 512, stride: int = 341, *, averages_scores: bool = False, scale: Scale | None = None
    ) -> None:
        if not 1 <= stride <= window:
            raise ValueError(f"stride must be 1 ... {window}, the window, got {stride}")
        self.window, self.stride, self.averages_scores, self.scale = window, stride, averages_scores, scale

    def __call__(self, network: Network, images: Tensor, scores: PixelScores) -> PixelLabels:
        """Labels of images (N, 3, H, W)."""
        scaled = images if self.scale is None else self.scale(images)
        window_scores = scores if self.averages_scores else _unchanged
        mean = self._mean(lambda crop: window_scores(_at_size_of(crop, network(crop))), scaled)
        return best_categories(mean, _size(images), _unchanged if self.averages_scores else scores)

    def _mean(self, network: Network, images: Tensor) -> Tensor:
        height, width = _size(images)
        total: Tensor | None = None
        num_windows = torch.zeros(height, width, device=images.device)
        for rows in self._spans(height):
            for columns in self._spans(width):
                maps = network(images[:, :, rows, columns])
                if total is None:
                    total = maps.new_zeros(*maps.shape[:2], height, width)
                total[:, :, rows, columns] += maps
                num_windows[rows, columns] += 1
        assert total is not None  # an image has at least one window
        return total.div_(num_windows)

    def _spans(self, length: int) -> Iterator[slice]:
        last = max(length - self.window, 0)
        for start in range(0, last + self.stride, self.stride):
            start = min(start, last)
            yield slice(start, min(start + self.window, length))


def best_categories(maps: Tensor, size: tuple[int, int], scores: PixelScores) -> PixelLabels:
    """Upsample logits (N, K, h, w) to the size (H, W), some rows at a time, and keep the best score of each pixel."""
    shape = (maps.shape[0], *size)
    labels = torch.empty(shape, dtype=torch.int64, device=maps.device)
    best = torch.empty(shape, dtype=torch.promote_types(maps.dtype, torch.float32), device=maps.device)
    for tile in row_tiles(maps, size):
        tile_scores = scores(upsample(maps[:, :, tile.band], tile, size[1]))
        best[:, tile.rows], labels[:, tile.rows] = tile_scores.max(1)
    return PixelLabels(labels, best)


def _at_size_of(images: Tensor, logits: Tensor) -> Tensor:
    # Half precision would round sums of close logits to ties.
    return F.interpolate(logits.float(), size=images.shape[-2:], mode="bilinear")


def _unchanged(maps: Tensor) -> Tensor:
    return maps


def _size(images: Tensor) -> tuple[int, int]:
    return images.shape[-2], images.shape[-1]
