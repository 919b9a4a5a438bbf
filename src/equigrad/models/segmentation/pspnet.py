"""PSPNet: every pixel is classified with averages of the whole image and of its regions.

Zhao, Shi, Qi, Wang, Jia: Pyramid Scene Parsing Network. CVPR 2017. Widths are those of mmsegmentation.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equigrad.models.backbones.conv_blocks import conv_norm_relu
from equigrad.models.backbones.encoder_maps import EncoderChannels, EncoderMaps
from equigrad.models.segmentation.fcn import PixelClassifier


class PSPHead(nn.Module):
    """Averages of the last map over a grid of regions, beside the map itself.

    Training needs at least two images in a batch: batch norm cannot normalise the average of a single image.

    Args:
        in_channels: number of channels of the encoder.
        num_logits: K.
        channels: number of channels of each pyramid level and of the last convolution.
        grids: regions on a side, for each level of the pyramid.
        dropout: share of the channels that are left out before the classifier.
    """

    def __init__(
        self,
        in_channels: EncoderChannels,
        num_logits: int,
        *,
        channels: int = 512,
        grids: Sequence[int] = (1, 2, 3, 6),
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.levels = nn.ModuleList(
            nn.Sequential(nn.AdaptiveAvgPool2d(grid), conv_norm_relu(in_channels.last, channels, 1)) for grid in grids
        )
        self.fuse = conv_norm_relu(in_channels.last + len(grids) * channels, channels, 3)
        self.classifier = PixelClassifier(channels, num_logits, dropout)

    def forward(self, maps: EncoderMaps) -> Tensor:
        """Logits (N, K, h, w) at the resolution of the last map."""
        size = maps.last.shape[-2:]
        levels = [F.interpolate(level(maps.last), size=size, mode="bilinear") for level in self.levels]
        logits: Tensor = self.classifier(self.fuse(torch.cat([maps.last, *levels], dim=1)))
        return logits
