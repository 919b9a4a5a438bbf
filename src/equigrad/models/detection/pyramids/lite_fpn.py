"""EfficientNet-Lite0 with a narrow feature pyramid: a detector's backbone with ImageNet weights, for work on a CPU.

Paths below the name the detector gives the pyramid: `stem`, `blocks.0` … `blocks.15`, `fpn`, and `head` with
`imagenet_features`.
"""

import os
from typing import Self

from torch import Tensor, nn

from equigrad.models.backbones.efficientnet_lite import EfficientNetLite0
from equigrad.models.detection.pyramids.feature_pyramid import ExtraLevels, FeaturePyramid

# Last block of the strides 8, 16 and 32, and the channels it has.
_LAST_BLOCKS = {4: 40, 10: 112, 15: 320}


class LiteFPN(nn.Module):
    """Images to levels P3-P7, or P3-P5 with `extra=None`. A level's size is rounded up.

    Batch norms keep their statistics, because batches of detection are small; scales and shifts are trained.

    Args:
        weights: None, `PACKAGE`, or a file with the package's names of weights; see `EfficientNetLite0`.
        num_channels: number of channels of every level, a multiple of 8.
        extra: where the levels above P5 come from; see `FeaturePyramid`.
        num_frozen: how many of the 16 blocks, and with the first the stem, are not trained; 3 are all up to stride 4.
        frozen_statistics: False also trains the statistics of the norms: without weights they must be.
        imagenet_features: after the levels, also give the map (B, 1280, ...) of stride 32 whose mean over the image is
            what ImageNet's classifier sees; two-stage detectors then classify RoIs by it as well.
    """

    def __init__(
        self,
        weights: str | os.PathLike[str] | None = None,
        *,
        num_channels: int = 96,
        extra: ExtraLevels | None = "p5",
        num_frozen: int = 3,
        frozen_statistics: bool = True,
        imagenet_features: bool = False,
    ) -> None:
        super().__init__()
        network = EfficientNetLite0(weights)
        if not 0 <= num_frozen <= len(network.blocks):
            raise ValueError(f"num_frozen must be 0 to {len(network.blocks)} blocks, got {num_frozen}")
        self.normalization, self.stem, self.blocks = network.normalization, network.stem, network.blocks
        # The maps differ tenfold in scale, and so would the levels that share one head.
        self.fpn = FeaturePyramid(list(_LAST_BLOCKS.values()), num_channels, extra=extra, norm_groups=8)
        self.num_channels, self.strides = num_channels, self.fpn.strides(8)
        self.head = network.head if imagenet_features else None
        self.imagenet_channels = network.num_features if imagenet_features else 0
        self.num_frozen, self.frozen_statistics = num_frozen, frozen_statistics
        for part in self._frozen_parts():
            part.requires_grad_(False)
        self.train()

    def forward(self, images: Tensor) -> list[Tensor]:
        """Levels (B, num_channels, ceil(H / stride), ceil(W / stride)) of images (B, 3, H, W), finest first."""
        maps = self.stem(self.normalization(images))
        taken = []
        for index, block in enumerate(self.blocks):
            maps = block(maps)
            if index in _LAST_BLOCKS:
                taken.append(maps)
        levels: list[Tensor] = self.fpn(taken)
        return levels if self.head is None else [*levels, self.head(maps)]

    def train(self, mode: bool = True) -> Self:
        """Set training mode; parts that are not trained stay in evaluation mode."""
        super().train(mode)
        pretrained = [part for part in (self.stem, self.blocks, self.head) if part is not None]
        kept = pretrained if self.frozen_statistics else self._frozen_parts()
        for part in kept:
            part.eval()
        return self

    def _frozen_parts(self) -> list[nn.Module]:
        return [self.stem, *self.blocks[: self.num_frozen]] if self.num_frozen else []
