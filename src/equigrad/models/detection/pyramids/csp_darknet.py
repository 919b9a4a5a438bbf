"""CSPDarknet with a path-aggregation pyramid: what YOLOX has below its head, in the sizes S and M.

Ge, Liu, Wang, Li, Sun: YOLOX: Exceeding YOLO Series in 2021. Trained from scratch. The 1x1 convolution with which each
branch of YOLOX's head begins is the last of the pyramid here, so that all levels have the same number of channels.
Paths below the name the detector gives the pyramid: `stem`, `stages.0` … `stages.3`, `paths`, `outputs`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equigrad.models.backbones.normalization import Normalization, PixelStatistics

BYTES = PixelStatistics((0.0,) * 3, (1 / 255,) * 3)  # YOLOX takes pixels of 0 … 255 as they are


class CSPDarknetPAFPN(nn.Module):
    """Images to levels of strides 8, 16 and 32. Height and width must be multiples of 32.

    Args:
        depth: factor on the number of blocks; 1 is YOLOX-L.
        width: factor on the number of channels, of the levels 256.
    """

    strides = (8, 16, 32)

    def __init__(self, *, depth: float, width: float) -> None:
        super().__init__()
        num_blocks = max(round(3 * depth), 1)
        c1, c2, c3, c4, c5 = (int(64 * width) * 2**stage for stage in range(5))
        self.num_channels = c3
        self.normalization = Normalization(BYTES)
        self.stem = ConvBlock(4 * 3, c1, 3)
        self.stages = nn.ModuleList(
            [
                nn.Sequential(ConvBlock(c1, c2, 3, stride=2), CrossStage(c2, c2, num_blocks)),
                nn.Sequential(ConvBlock(c2, c3, 3, stride=2), CrossStage(c3, c3, 3 * num_blocks)),
                nn.Sequential(ConvBlock(c3, c4, 3, stride=2), CrossStage(c4, c4, 3 * num_blocks)),
                nn.Sequential(
                    ConvBlock(c4, c5, 3, stride=2),
                    SpatialPyramidPooling(c5),
                    CrossStage(c5, c5, num_blocks, shortcut=False),
                ),
            ]
        )
        self.paths = PathAggregation((c3, c4, c5), num_blocks)
        self.outputs = nn.ModuleList(ConvBlock(channels, self.num_channels, 1) for channels in (c3, c4, c5))

    def forward(self, images: Tensor) -> list[Tensor]:
        """Levels (B, num_channels, H / stride, W / stride) of images (B, 3, H, W)."""
        images = self.normalization(images)
        if any(size % self.strides[-1] for size in images.shape[-2:]):
            raise ValueError(f"images must have sides that are multiples of 32, got {tuple(images.shape[-2:])}")
        # "Focus": the four pixels of a 2x2 square become channels.
        maps = self.stem(F.pixel_unshuffle(images, 2))
        stages = []
        for stage in self.stages:
            maps = stage(maps)
            stages.append(maps)
        return [output(level) for output, level in zip(self.outputs, self.paths(*stages[1:]), strict=True)]


class ConvBlock(nn.Module):
    """Convolution, batch norm, SiLU."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, *, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, stride, kernel_size // 2, bias=False)
        self.norm = nn.BatchNorm2d(out_channels, eps=1e-3, momentum=0.03)

    def forward(self, maps: Tensor) -> Tensor:
        """Maps (B, out_channels, H / stride, W / stride)."""
        return F.silu(self.norm(self.conv(maps)), inplace=True)


class CrossStage(nn.Module):
    """Half of the channels goes through the blocks, the other half around them (Wang et al.: CSPNet. CVPRW 2020)."""

    def __init__(self, in_channels: int, out_channels: int, num_blocks: int, *, shortcut: bool = True) -> None:
        super().__init__()
        half = out_channels // 2
        self.main = ConvBlock(in_channels, half, 1)
        self.side = ConvBlock(in_channels, half, 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(ConvBlock(half, half, 1), ConvBlock(half, half, 3)) for _ in range(num_blocks)
        )
        self.join = ConvBlock(2 * half, out_channels, 1)
        self.shortcut = shortcut

    def forward(self, maps: Tensor) -> Tensor:
        """Maps (B, out_channels, H, W)."""
        main = self.main(maps)
        for block in self.blocks:
            main = main + block(main) if self.shortcut else block(main)
        joined: Tensor = self.join(torch.cat([main, self.side(maps)], 1))
        return joined


class SpatialPyramidPooling(nn.Module):
    """Maxima over squares of 5, 9 and 13 beside each value; those of 9 and 13 are maxima of maxima."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.reduce = ConvBlock(channels, channels // 2, 1)
        self.join = ConvBlock(4 * (channels // 2), channels, 1)

    def forward(self, maps: Tensor) -> Tensor:
        """Maps (B, channels, H, W)."""
        pooled = [self.reduce(maps)]
        for _ in range(3):
            pooled.append(F.max_pool2d(pooled[-1], 5, stride=1, padding=2))
        joined: Tensor = self.join(torch.cat(pooled, 1))
        return joined


class PathAggregation(nn.Module):
    """A pyramid from the top down and back up, maps joined by concatenation (Liu et al.: PANet. CVPR 2018)."""

    def __init__(self, channels: tuple[int, int, int], num_blocks: int) -> None:
        super().__init__()
        c3, c4, c5 = channels
        self.reduce5 = ConvBlock(c5, c4, 1)
        self.down4 = CrossStage(2 * c4, c4, num_blocks, shortcut=False)
        self.reduce4 = ConvBlock(c4, c3, 1)
        self.down3 = CrossStage(2 * c3, c3, num_blocks, shortcut=False)
        self.step3 = ConvBlock(c3, c3, 3, stride=2)
        self.up4 = CrossStage(2 * c3, c4, num_blocks, shortcut=False)
        self.step4 = ConvBlock(c4, c4, 3, stride=2)
        self.up5 = CrossStage(2 * c4, c5, num_blocks, shortcut=False)

    def forward(self, map3: Tensor, map4: Tensor, map5: Tensor) -> list[Tensor]:
        """Maps of the same shapes."""
        reduced5 = self.reduce5(map5)
        reduced4 = self.reduce4(self.down4(torch.cat([_doubled(reduced5), map4], 1)))
        level3 = self.down3(torch.cat([_doubled(reduced4), map3], 1))
        level4 = self.up4(torch.cat([self.step3(level3), reduced4], 1))
        level5 = self.up5(torch.cat([self.step4(level4), reduced5], 1))
        return [level3, level4, level5]


def _doubled(maps: Tensor) -> Tensor:
    return F.interpolate(maps, scale_factor=2, mode="nearest")


def csp_darknet_s() -> CSPDarknetPAFPN:
    """Backbone and pyramid of YOLOX-S: 128 channels a level."""
    return CSPDarknetPAFPN(depth=0.33, width=0.5)


def csp_darknet_m() -> CSPDarknetPAFPN:
    """Backbone and pyramid of YOLOX-M: 192 channels a level."""
    return CSPDarknetPAFPN(depth=0.67, width=0.75)
