"""EfficientNet-Lite0 for segmentation: a small encoder with ImageNet weights, for work on a CPU.

In a `Segmenter` its paths are `backbone.stem` and `backbone.blocks.0` … `backbone.blocks.15`.
"""

import os

from torch import Tensor, nn

from equigrad.models.backbones.efficientnet_lite import EfficientNetLite0, InvertedResidual
from equigrad.models.backbones.encoder_maps import EncoderChannels, EncoderMaps

# Blocks after which a map is taken: 24 channels of stride 4, 112 of stride 16 and, the last, 320 of stride 32.
_LOW, _MIDDLE = 2, 10
# First blocks of the stages that step to stride 16 and to stride 32.
_TO_STRIDE = {16: 5, 32: 11}


class DilatedEfficientNetLite0(nn.Module):
    """Images to maps of 24, 112 and 320 channels.

    Blocks that would step beyond the output stride dilate instead, as in `DilatedResNet`.

    Args:
        weights: None, `PACKAGE`, or a file with the package's names of weights; see `EfficientNetLite0`.
        output_stride: 8, 16, or 32 for none dilated.
    """

    channels = EncoderChannels(low=24, middle=112, last=320)

    def __init__(self, weights: str | os.PathLike[str] | None = None, *, output_stride: int = 16) -> None:
        super().__init__()
        if output_stride not in (8, 16, 32):
            raise ValueError(f"output_stride must be 8, 16 or 32, got {output_stride}")
        network = EfficientNetLite0(weights)
        self.normalization, self.stem, self.blocks = network.normalization, network.stem, network.blocks
        dilation = 1
        for index, block in enumerate(self.blocks):
            before = dilation
            if index in (first for stride, first in _TO_STRIDE.items() if stride > output_stride):
                dilation *= 2
                _dilate(block, before)
            elif dilation > 1:
                _dilate(block, dilation)

    def forward(self, images: Tensor) -> EncoderMaps:
        """Maps of images (N, 3, H, W)."""
        low = self.blocks[: _LOW + 1](self.stem(self.normalization(images)))
        middle = self.blocks[_LOW + 1 : _MIDDLE + 1](low)
        return EncoderMaps(low, middle, self.blocks[_MIDDLE + 1 :](middle))


def _dilate(block: nn.Module, dilation: int) -> None:
    """Make a block keep its resolution, with its filter spread over `dilation` times the width."""
    assert isinstance(block, InvertedResidual)
    layer = block.depthwise
    layer.stride = 1
    layer.conv.stride = (1, 1)
    layer.conv.dilation = (dilation, dilation)
    layer.conv.padding = (dilation * (layer.conv.kernel_size[0] // 2),) * 2
