"""Heads of one-stage detectors: from the maps of a pyramid to logits, box values and quality at every location.

One layout for loss, statistics and inference: channel a * K + k of a location is logit k of its anchor a, so that
`logits.view(B * A, K, H, W)` has the layout (N, C, ...) losses take. Nothing is copied.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equigrad.models.scores import bias_for_prior

NUM_CONVS = 4  # of a tower
NUM_GROUPS = 32  # of the normalisation; fewer where 32 does not divide the channels of a small pyramid


class LevelOutput(NamedTuple):
    """Output of a head at one level of the pyramid, for A anchors at each location."""

    logits: Tensor  # (B, A * K, H, W)
    boxes: Tensor  # (B, A * 4, H, W)  values of a box coder
    quality: Tensor | None  # (B, A, H, W)  logits of centre-ness, IoU or objectness


class DenseHead(nn.Module):
    """Two towers of four convolutions shared by all levels, one for categories, one for boxes and their quality.

    Args:
        num_channels: number of channels of the pyramid.
        num_logits: K, of an anchor.
        num_anchors: A, at each location.
        num_levels: number of levels of the pyramid.
        group_norm: whether a group normalisation (32 groups) follows each convolution of a tower.
        with_quality: whether the box tower also predicts the quality.
        with_scales: whether each level has a learned factor of its box values (FCOS, ATSS, PAA).
        with_distances: whether box values are distances, hence not negative.
        prior: probability each category starts with.
    """

    def __init__(
        self,
        num_channels: int,
        num_logits: int,
        num_anchors: int = 1,
        *,
        num_levels: int = 5,
        group_norm: bool = True,
        with_quality: bool = False,
        with_scales: bool = False,
        with_distances: bool = False,
        prior: float = 0.01,
    ) -> None:
        super().__init__()
        self.num_anchors = num_anchors
        self.with_distances = with_distances
        self.class_tower = _tower(num_channels, group_norm)
        self.box_tower = _tower(num_channels, group_norm)
        self.logits = nn.Conv2d(num_channels, num_anchors * num_logits, 3, padding=1)
        self.boxes = nn.Conv2d(num_channels, num_anchors * 4, 3, padding=1)
        self.quality = nn.Conv2d(num_channels, num_anchors, 3, padding=1) if with_quality else None
        self.scales = nn.Parameter(torch.ones(num_levels)) if with_scales else None
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                # Published: 0.01, for 256 channels. With fewer channels, signals would vanish in towers without norms.
                nn.init.normal_(module.weight, std=0.01 * math.sqrt(256 / num_channels))
                nn.init.zeros_(module.bias)  # type: ignore[arg-type]
        set_prior(self.logits, prior)

    def forward(self, maps: Sequence[Tensor]) -> list[LevelOutput]:
        """The outputs of maps (B, D, H, W), level by level."""
        return [self._level(features, level) for level, features in enumerate(maps)]

    def _level(self, features: Tensor, level: int) -> LevelOutput:
        box_features = self.box_tower(features)
        boxes = self.boxes(box_features)
        if self.scales is not None:
            boxes = boxes * self.scales[level]
        if self.with_distances:
            boxes = F.relu(boxes)
        quality = None if self.quality is None else self.quality(box_features)
        return LevelOutput(self.logits(self.class_tower(features)), boxes, quality)


def set_prior(layer: nn.Conv2d, prior: float) -> None:
    """Set the bias of a layer so that every sigmoid starts at the probability `prior`."""
    assert layer.bias is not None
    nn.init.constant_(layer.bias, bias_for_prior(prior))


def _tower(num_channels: int, group_norm: bool) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(NUM_CONVS):
        # With a bias also before a normalisation, as in the published heads and in torchvision's.
        layers.append(nn.Conv2d(num_channels, num_channels, 3, padding=1))
        if group_norm:
            layers.append(nn.GroupNorm(math.gcd(NUM_GROUPS, num_channels), num_channels))
        layers.append(nn.ReLU(inplace=True))
    return nn.Sequential(*layers)
