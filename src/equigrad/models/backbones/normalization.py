"""Pixel statistics: every backbone normalises its own input, so that no data pipeline has to know which one it feeds.

Images are uint8, which takes a quarter of the bandwidth between processes and to the GPU, or floats in [0, 1].
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn


class PixelStatistics(NamedTuple):
    """Mean and standard deviation of the channels R, G, B, of pixels in [0, 1]."""

    mean: tuple[float, float, float]
    std: tuple[float, float, float]


IMAGENET = PixelStatistics((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
INATURALIST18 = PixelStatistics((0.466, 0.471, 0.380), (0.195, 0.194, 0.192))
EFFICIENTNET_LITE = PixelStatistics((127 / 255,) * 3, (128 / 255,) * 3)  # (x - 127) / 128 of bytes
HALF = PixelStatistics((0.5,) * 3, (0.5,) * 3)  # to [-1, 1]


class Normalization(nn.Module):
    """(x - mean) / std of each channel; constants of a backbone, which are not in its `state_dict`."""

    mean: Tensor  # (3, 1, 1)
    std: Tensor  # (3, 1, 1)

    def __init__(self, pixels: PixelStatistics) -> None:
        super().__init__()
        self.pixels = pixels
        self.register_buffer("mean", torch.tensor(pixels.mean).reshape(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(pixels.std).reshape(3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Normalised images (N, 3, H, W) of uint8, or of floating point in [0, 1]."""
        if images.dim() != 4 or images.shape[1] != 3:
            raise ValueError(f"images must be (N, 3, H, W), got {tuple(images.shape)}")
        if images.dtype == torch.uint8:
            images = images.to(self.mean.dtype) / 255
        elif not images.is_floating_point():
            raise ValueError(f"images must be uint8, or floating point in [0, 1], got {images.dtype}")
        return (images - self.mean) / self.std

    def extra_repr(self) -> str:
        """Mean and standard deviation."""
        return f"mean={self.pixels.mean}, std={self.pixels.std}"
