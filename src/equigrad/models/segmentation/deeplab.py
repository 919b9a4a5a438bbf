"""DeepLabV3+: parallel convolutions of several dilations, and a decoder that restores edges.

Chen, Zhu, Papandreou, Schroff, Adam: Encoder-Decoder with Atrous Separable Convolution for Semantic Image Segmentation.
ECCV 2018. Widths are those of mmsegmentation.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equigrad.models.backbones.conv_blocks import conv_norm_relu, separable_conv
from equigrad.models.backbones.encoder_maps import EncoderChannels, EncoderMaps
from equigrad.models.segmentation.fcn import PixelClassifier


class DeepLabV3PlusHead(nn.Module):
    """Atrous spatial pyramid pooling of the last map, joined with the low map at its resolution.

    Training needs at least two images in a batch: batch norm cannot normalise the average of a single image.

    Args:
        in_channels: number of channels of the encoder.
        num_logits: K.
        channels: number of channels of each branch, and of the decoder.
        low_channels: what the low map is reduced to.
        dilations: dilations of the branches; 1 is a 1x1 convolution. Defaults are for output stride 8: halve for 16.
        separable: depthwise-separable convolutions in branches and decoder, as published.
        dropout: share of the channels that are left out before the classifier.
    """

    def __init__(
        self,
        in_channels: EncoderChannels,
        num_logits: int,
        *,
        channels: int = 512,
        low_channels: int = 48,
        dilations: Sequence[int] = (1, 12, 24, 36),
        separable: bool = True,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.average = nn.Sequential(nn.AdaptiveAvgPool2d(1), conv_norm_relu(in_channels.last, channels, 1))
        self.branches = nn.ModuleList(
            conv_norm_relu(in_channels.last, channels, 1)
            if dilation == 1
            else _conv(in_channels.last, channels, separable, dilation)
            for dilation in dilations
        )
        self.fuse = conv_norm_relu((len(dilations) + 1) * channels, channels, 3)
        self.low = conv_norm_relu(in_channels.low, low_channels, 1)
        self.decoder = nn.Sequential(
            _conv(channels + low_channels, channels, separable), _conv(channels, channels, separable)
        )
        self.classifier = PixelClassifier(channels, num_logits, dropout)

    def forward(self, maps: EncoderMaps) -> Tensor:
        """Logits (N, K, h, w) at the resolution of the low map."""
        average = self.average(maps.last).expand(-1, -1, *maps.last.shape[-2:])
        fused = self.fuse(torch.cat([average, *(branch(maps.last) for branch in self.branches)], dim=1))
        low = self.low(maps.low)
        upsampled = F.interpolate(fused, size=low.shape[-2:], mode="bilinear")
        logits: Tensor = self.classifier(self.decoder(torch.cat([upsampled, low], dim=1)))
        return logits


def _conv(in_channels: int, out_channels: int, separable: bool, dilation: int = 1) -> nn.Sequential:
    if separable:
        return separable_conv(in_channels, out_channels, dilation=dilation)
    return conv_norm_relu(in_channels, out_channels, 3, dilation=dilation)
