"""Features of RoIs from the level of the pyramid that suits their size."""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torchvision.ops import MultiScaleRoIAlign, roi_align  # type: ignore[import-untyped]

CANONICAL_SIDE, CANONICAL_LEVEL = 224, 4  # a RoI of this side is pooled from the level of stride 2^4


def roi_pool(level_names: Sequence[str], size: int, sampling_ratio: int, *, aligned: bool) -> nn.Module:
    """From features by level name, RoIs (n, 4) of each image and image sizes to pooled features (N, D, size, size).

    Args:
        level_names: names of the levels to pool from, finest first.
        size: size of a pooled map.
        sampling_ratio: points a bin is averaged over, on each of its sides.
        aligned: pixels have their centres at halves, as in the code that was released with the losses; otherwise
            torchvision's pooling, which is off by half a pixel of the level.
    """
    if aligned:
        return AlignedRoIPool(level_names, size, sampling_ratio)
    pool: nn.Module = MultiScaleRoIAlign(list(level_names), size, sampling_ratio)
    return pool


class AlignedRoIPool(nn.Module):
    """`MultiScaleRoIAlign` with aligned pixels, which that has no option for; arguments as in `roi_pool`."""

    def __init__(self, level_names: Sequence[str], size: int, sampling_ratio: int) -> None:
        super().__init__()
        self.level_names, self.size, self.sampling_ratio = tuple(level_names), size, sampling_ratio

    def forward(
        self, features: Mapping[str, Tensor], rois: Sequence[Tensor], image_sizes: Sequence[tuple[int, int]]
    ) -> Tensor:
        """Pooled features of the RoIs of all images, one image after the other."""
        maps = [features[name] for name in self.level_names]
        height = max(size[0] for size in image_sizes)
        exponents = [round(math.log2(height / each.shape[-2])) for each in maps]  # of the strides
        numbered = [torch.cat([each.new_full((len(each), 1), image), each], 1) for image, each in enumerate(rois)]
        joined = torch.cat(numbered)
        levels = level_indices(joined[:, 1:], exponents[0], exponents[-1])
        pooled = maps[0].new_zeros((len(joined), maps[0].shape[1], self.size, self.size))
        for level, (each, exponent) in enumerate(zip(maps, exponents, strict=True)):
            rows = (levels == level).nonzero()[:, 0]
            part = joined[rows].to(each.dtype)
            pooled[rows] = roi_align(each, part, self.size, 2.0**-exponent, self.sampling_ratio, aligned=True)
        return pooled


def level_indices(boxes: Tensor, finest: int, coarsest: int) -> Tensor:
    """Which level each box (N, 4) is pooled from, (N,), by the square root of its area (Lin et al., 2017).

    Args:
        boxes: x1, y1, x2, y2.
        finest: log2 of the stride of level 0.
        coarsest: log2 of the stride of the last level.
    """
    sides = (boxes[:, 2:] - boxes[:, :2]).prod(1).clamp(min=0).sqrt()
    exponents = torch.floor(CANONICAL_LEVEL + torch.log2(sides / CANONICAL_SIDE) + 1e-6)
    return exponents.clamp(finest, coarsest).long() - finest
