"""The decoupled head of YOLOX: towers of its own for each level."""

from collections.abc import Sequence

from torch import Tensor, nn

from equigrad.models.detection.one_stage.head import LevelOutput, set_prior
from equigrad.models.detection.pyramids.csp_darknet import ConvBlock


class DecoupledHead(nn.Module):
    """Two towers a level, one for categories, one for boxes and their quality.

    The 1x1 convolution that YOLOX has before them is the last one of `CSPDarknetPAFPN`.

    Args:
        num_channels: number of channels of the pyramid.
        num_logits: K, of an anchor.
        num_anchors: A, at each location.
        num_levels: number of levels of the pyramid.
        prior: probability each category, and the quality, start with.
    """

    def __init__(
        self, num_channels: int, num_logits: int, num_anchors: int = 1, *, num_levels: int = 3, prior: float = 0.01
    ) -> None:
        super().__init__()
        self.levels = nn.ModuleList(_LevelHead(num_channels, num_logits, num_anchors, prior) for _ in range(num_levels))

    def forward(self, maps: Sequence[Tensor]) -> list[LevelOutput]:
        """The outputs of maps (B, D, H, W), level by level."""
        return [level(features) for level, features in zip(self.levels, maps, strict=True)]


class _LevelHead(nn.Module):
    def __init__(self, num_channels: int, num_logits: int, num_anchors: int, prior: float) -> None:
        super().__init__()
        self.class_tower = _tower(num_channels)
        self.box_tower = _tower(num_channels)
        self.logits = nn.Conv2d(num_channels, num_anchors * num_logits, 1)
        self.boxes = nn.Conv2d(num_channels, num_anchors * 4, 1)
        self.quality = nn.Conv2d(num_channels, num_anchors, 1)
        set_prior(self.logits, prior)
        set_prior(self.quality, prior)

    def forward(self, features: Tensor) -> LevelOutput:
        box_features = self.box_tower(features)
        logits = self.logits(self.class_tower(features))
        return LevelOutput(logits, self.boxes(box_features), self.quality(box_features))


def _tower(num_channels: int) -> nn.Sequential:
    return nn.Sequential(ConvBlock(num_channels, num_channels, 3), ConvBlock(num_channels, num_channels, 3))
