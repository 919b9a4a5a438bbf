"""The simplest head of a segmenter, used as auxiliary head, and the last layer of all heads.

Long, Shelhamer, Darrell: Fully Convolutional Networks for Semantic Segmentation. CVPR 2015.
"""

from torch import Tensor, nn

from equigrad.models.backbones.conv_blocks import conv_norm_relu
from equigrad.models.backbones.encoder_maps import EncoderChannels, EncoderMaps
from equigrad.models.scores import bias_for_prior


class FCNHead(nn.Module):
    """One 3x3 convolution and the classifier, on the middle map: the auxiliary head of PSPNet and DeepLabV3+.

    Args:
        in_channels: number of channels of the encoder.
        num_logits: K.
        channels: number of channels of the convolution.
    """

    def __init__(self, in_channels: EncoderChannels, num_logits: int, *, channels: int = 256) -> None:
        super().__init__()
        self.conv = conv_norm_relu(in_channels.middle, channels, 3)
        self.classifier = PixelClassifier(channels, num_logits, dropout=0.1)

    def forward(self, maps: EncoderMaps) -> Tensor:
        """Logits (N, K, h, w) at the resolution of the middle map."""
        logits: Tensor = self.classifier(self.conv(maps.middle))
        return logits


class PixelClassifier(nn.Module):
    """Dropout of whole channels and a 1x1 convolution: the last layer of every head.

    Args:
        in_channels: D.
        num_logits: K.
        dropout: share of the channels that are left out.
    """

    def __init__(self, in_channels: int, num_logits: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout2d(dropout)
        self.conv = nn.Conv2d(in_channels, num_logits, 1)
        nn.init.normal_(self.conv.weight, std=0.01)
        self._fill_bias(0.0)

    def set_prior(self, probability: float) -> None:
        """Set the bias so that every sigmoid starts near this probability."""
        self._fill_bias(bias_for_prior(probability))

    def forward(self, maps: Tensor) -> Tensor:
        """Logits (N, K, h, w) of maps (N, D, h, w)."""
        logits: Tensor = self.conv(self.dropout(maps))
        return logits

    def _fill_bias(self, value: float) -> None:
        assert self.conv.bias is not None
        nn.init.constant_(self.conv.bias, value)
