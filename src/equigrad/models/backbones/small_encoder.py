"""A small encoder for dense prediction, for the demo and the tests: a minute to train on a CPU."""

from torch import Tensor, nn

from equigrad.models.backbones.conv_blocks import conv_norm_relu
from equigrad.models.backbones.encoder_maps import EncoderChannels, EncoderMaps
from equigrad.models.backbones.normalization import HALF, Normalization


class SmallEncoder(nn.Module):
    """Images to maps of stride 4 (2 x width channels), 8 (4 x width) and 8 (8 x width).

    In a `Segmenter` its paths are `backbone.low`, `backbone.middle` and `backbone.last`.

    Args:
        width: channels of the first convolution.
    """

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        if width < 1:
            raise ValueError(f"width must be at least 1, got {width}")
        self.channels = EncoderChannels(low=2 * width, middle=4 * width, last=8 * width)
        self.normalization = Normalization(HALF)
        self.low = nn.Sequential(_halving(3, width), _halving(width, self.channels.low))
        self.middle = _halving(self.channels.low, self.channels.middle)
        self.last = conv_norm_relu(self.channels.middle, self.channels.last, 3, dilation=2)

    def forward(self, images: Tensor) -> EncoderMaps:
        """Maps of images (N, 3, H, W)."""
        low = self.low(self.normalization(images))
        middle = self.middle(low)
        return EncoderMaps(low, middle, self.last(middle))


def _halving(in_channels: int, out_channels: int) -> nn.Sequential:
    return nn.Sequential(conv_norm_relu(in_channels, out_channels, 3), nn.MaxPool2d(2, ceil_mode=True))
