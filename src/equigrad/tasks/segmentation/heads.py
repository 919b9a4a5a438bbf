"""Segmentation heads as settings: each dataclass builds a head on the maps of an encoder."""

from dataclasses import dataclass

from torch import nn

from equigrad.models.backbones.encoder_maps import EncoderChannels
from equigrad.models.segmentation.deeplab import DeepLabV3PlusHead
from equigrad.models.segmentation.pspnet import PSPHead


@dataclass(frozen=True)
class PSPNet:
    """PSPNet: averages over grids.

    Args:
        channels: number of channels of the head.
        grids: number of cells along a side of each grid.
        dropout: dropout before the classifier.
    """

    channels: int = 512
    grids: tuple[int, ...] = (1, 2, 3, 6)
    dropout: float = 0.1

    def __call__(self, in_channels: EncoderChannels, num_logits: int) -> nn.Module:
        """The head on an encoder."""
        return PSPHead(in_channels, num_logits, channels=self.channels, grids=self.grids, dropout=self.dropout)


@dataclass(frozen=True)
class DeepLabV3Plus:
    """DeepLabV3+: dilated convolutions, and a decoder with the edges of an early map.

    Args:
        channels: number of channels of the head.
        low_channels: number of channels of the early feature map in the decoder.
        dilations: dilations of the convolutions; 1 is a plain one.
        separable: use depthwise separable convolutions.
        dropout: dropout before the classifier.
    """

    channels: int = 512
    low_channels: int = 48
    dilations: tuple[int, ...] = (1, 12, 24, 36)
    separable: bool = True
    dropout: float = 0.1

    def __call__(self, in_channels: EncoderChannels, num_logits: int) -> nn.Module:
        """The head on an encoder."""
        return DeepLabV3PlusHead(
            in_channels,
            num_logits,
            channels=self.channels,
            low_channels=self.low_channels,
            dilations=self.dilations,
            separable=self.separable,
            dropout=self.dropout,
        )
