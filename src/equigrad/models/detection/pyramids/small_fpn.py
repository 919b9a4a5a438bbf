"""A small convolutional pyramid for scenes of 128-256 px, trained from scratch in seconds per epoch on a CPU.

Paths below the name the detector gives the pyramid: `stem`, `stages.0` …, `fpn`.
"""

from torch import Tensor, nn

from equigrad.models.backbones.normalization import HALF, Normalization
from equigrad.models.detection.pyramids.feature_pyramid import FeaturePyramid


class SmallFPN(nn.Module):
    """Images to levels of the given strides, each size rounded up: two convolutions a stage, then the pyramid.

    On a CPU it is fastest with channels last.

    Args:
        width: channels at stride 2; they double with the stride.
        num_channels: number of channels of every level.
        strides: powers of 2 from 4 on, each twice the one before.
    """

    def __init__(
        self,
        width: int = 16,
        *,
        num_channels: int = 64,
        strides: tuple[int, ...] = (8, 16, 32),
    ) -> None:
        super().__init__()
        if width < 1 or num_channels < 1:
            raise ValueError(f"width and num_channels must be at least 1, got {width} and {num_channels}")
        powers = tuple(strides[0] * 2**level for level in range(len(strides))) if strides else ()
        if strides != powers or not strides or strides[0] < 4 or strides[0].bit_count() != 1:
            raise ValueError(f"strides must be powers of 2 from 4 on, each twice the one before, got {strides}")
        self.num_channels, self.strides = num_channels, strides
        self.normalization = Normalization(HALF)
        self.stem = _conv(3, width, stride=2)
        num_stages = strides[-1].bit_length() - 2
        widths = [width * 2**stage for stage in range(num_stages + 1)]
        self.stages = nn.ModuleList(map(_Stage, widths, widths[1:]))
        self.fpn = FeaturePyramid(widths[-len(strides) :], num_channels, extra=None)

    def forward(self, images: Tensor) -> list[Tensor]:
        """Levels (B, num_channels, ceil(H / stride), ceil(W / stride)) of images (B, 3, H, W)."""
        maps = self.stem(self.normalization(images))
        stages = []
        for stage in self.stages:
            maps = stage(maps)
            stages.append(maps)
        levels: list[Tensor] = self.fpn(stages[-len(self.strides) :])
        return levels


class _Stage(nn.Module):
    """Half the size, then a residual convolution."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.down = _conv(in_channels, out_channels, stride=2)
        self.residual = _conv(out_channels, out_channels)

    def forward(self, maps: Tensor) -> Tensor:
        maps = self.down(maps)
        residual: Tensor = self.residual(maps)
        return maps + residual


def _conv(in_channels: int, out_channels: int, *, stride: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(in_channels, out_channels, 3, stride, padding=1, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return nn.Sequential(conv, nn.BatchNorm2d(out_channels), nn.ReLU(inplace=True))
