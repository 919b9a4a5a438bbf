"""A segmenter to deploy."""

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
        _replace_pooling(self.head)

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
    height, width = images.shape[-2:]
    shorter, longer = torch.sym_min(height, width), torch.sym_max(height, width)

    def new(side: int) -> int | torch.SymInt:
        by_shorter = (2 * side * scale.short_side + shorter) // (2 * shorter)
        by_longer = (2 * side * scale.long_side + longer) // (2 * longer)
        return torch.sym_max(torch.sym_min(by_shorter, by_longer), 1)

    return F.interpolate(images / 255, size=(new(height), new(width)), mode="bilinear", antialias=True)  # type: ignore[arg-type]


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


def _replace_pooling(head: nn.Module) -> None:
    for parent in list(head.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.AdaptiveAvgPool2d):
                setattr(parent, name, GridAverage(int(child.output_size)))  # type: ignore[arg-type]
