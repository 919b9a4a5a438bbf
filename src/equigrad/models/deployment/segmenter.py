"""A segmenter to deploy."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equigrad.models.segmentation.segmenter import Segmenter
from equigrad.models.segmentation.sliding_window import Scale, SlidingWindow, WholeImage


class DeployedSegmenter(nn.Module):
    """The category of every pixel, at the size of the images it is given.

    Args:
        model: a trained one; its losses and its auxiliary head are left out. Sliding windows need images of one size.
    """

    def __init__(self, model: Segmenter) -> None:
        super().__init__()
        self.backbone, self.head, self.scores = model.backbone, model.head, model.scores
        self.inference, self.scale = model.inference, None
        if isinstance(model.inference, WholeImage):
            self.scale = model.inference.scale
        _replace(self.head, nn.AdaptiveAvgPool2d, lambda pooling: GridAverage(int(pooling.output_size)))
        _replace(self.backbone, nn.MaxPool2d, _padded_pooling)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Labels (N, H, W) of int64 and their scores (N, H, W), of images (N, 3, H, W) of uint8."""
        if isinstance(self.inference, SlidingWindow):
            labels, scores = self.inference(self._logits, images, self.scores)
            return labels, scores
        seen = images if self.scale is None else _scaled(images, self.scale)
        # All rows at once: a file cannot adapt to the memory of the machine that runs it.
        logits = F.interpolate(self._logits(seen).float(), size=images.shape[-2:], mode="bilinear")
        scores, labels = self.scores(logits).max(1)
        return labels, scores

    def _logits(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.backbone(images))
        return logits


def _scaled(images: Tensor, scale: Scale) -> Tensor:
    """`Scale` in whole numbers, which an exported graph can compute for images of any size."""
    sides = torch.stack([torch.scalar_tensor(side, dtype=torch.int64) for side in images.shape[-2:]])
    shorter, longer = sides.min(), sides.max()
    by_shorter = (2 * sides * scale.short_side + shorter) // (2 * shorter)
    by_longer = (2 * sides * scale.long_side + longer) // (2 * longer)
    new = by_shorter.minimum(by_longer).clamp(min=1)
    # As new unknowns: `torch.export` takes minutes to solve a network for the formula above.
    size: Any = list(new.unbind())  # tensors, for TorchScript
    if not torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        size = [each.item() for each in size]
        for side in size:
            torch._check(side >= 1)
    return F.interpolate(images / 255, size=size, mode="bilinear", antialias=True)


class GridAverage(nn.Module):
    """`nn.AdaptiveAvgPool2d` as two matrix products, for maps of dynamic size, for which ONNX has no operator.

    Args:
        grid: regions on a side.
    """

    def __init__(self, grid: int) -> None:
        super().__init__()
        self.grid = grid

    def forward(self, maps: Tensor) -> Tensor:
        """Averages (N, D, grid, grid) of maps (N, D, h, w)."""
        return self._shares(maps, 2) @ maps @ self._shares(maps, 3).T

    def _shares(self, maps: Tensor, dimension: int) -> Tensor:
        """The share of each row or column in each region, (grid, length)."""
        length = maps.shape[dimension]
        region = torch.arange(self.grid, device=maps.device)[:, None]
        position = torch.arange(length, device=maps.device)
        first, end = region * length // self.grid, ((region + 1) * length + self.grid - 1) // self.grid
        inside = (position >= first) & (position < end)
        return inside.to(maps.dtype) / (end - first)


class PaddedMaxPool(nn.Module):
    """`nn.MaxPool2d` with `ceil_mode` and without overlap: `torch.export` cannot tell whether its last window is empty.

    Args:
        size: side of a window.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, maps: Tensor) -> Tensor:
        """Maxima (N, D, ceil(h / size), ceil(w / size)) of maps (N, D, h, w)."""
        vertical, horizontal = ((side + self.size - 1) // self.size * self.size - side for side in maps.shape[-2:])
        return F.max_pool2d(F.pad(maps, (0, horizontal, 0, vertical), value=-torch.inf), self.size)


def _padded_pooling(pooling: Any) -> nn.Module:
    size = pooling.kernel_size
    has_rest = pooling.ceil_mode and pooling.stride == size and not pooling.padding
    return PaddedMaxPool(size) if has_rest else pooling


def _replace(network: nn.Module, kind: type[nn.Module], replacement: Callable[[Any], nn.Module]) -> None:
    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, kind):
                setattr(parent, name, replacement(child))
