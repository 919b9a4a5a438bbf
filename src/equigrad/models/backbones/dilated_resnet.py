"""ResNet-50 and -101 for segmentation: the last two stages dilate instead of stepping, so that the output stride is 8.

Yu, Koltun, Funkhouser: Dilated Residual Networks. CVPR 2017. The deep stem, three 3x3 convolutions instead of one of
7x7, is that of the ResNetV1c in mmsegmentation, whose names its parts have (`stem.0` … `stem.8`). Everything else has
torchvision's names. In a `Segmenter` paths are `backbone.stem`, `backbone.layer1` … `backbone.layer4`.
"""

import os
from typing import Any

from torch import Tensor, nn
from torchvision.models import ResNet, ResNet50_Weights, ResNet101_Weights  # type: ignore[import-untyped]
from torchvision.models.resnet import Bottleneck  # type: ignore[import-untyped]

from equigrad.models.backbones.encoder_maps import EncoderChannels, EncoderMaps
from equigrad.models.backbones.normalization import IMAGENET, Normalization, PixelStatistics
from equigrad.models.backbones.pretrained import load_backbone, read_weights
from equigrad.models.backbones.resnets import TORCHVISION, Weights, download


class DilatedResNet(ResNet):  # type: ignore[misc]
    """Images to maps of stride 4 (256 channels), 8 (1,024) and 8 (2,048).

    Stages have strides 1, 2, 1, 1 and dilations 1, 1, 2, 4. The first block of a dilated stage has the dilation of the
    stage before ("contracted"): then the network computes what the strided one computes, at more locations.

    Args:
        depths: blocks of the four stages.
        deep_stem: three 3x3 convolutions; False is torchvision's single one, whose weights fit.
        pixels: mean and standard deviation that images are normalised with.
    """

    channels = EncoderChannels(low=256, middle=1024, last=2048)

    def __init__(self, depths: list[int], *, deep_stem: bool = True, pixels: PixelStatistics = IMAGENET) -> None:
        # torchvision contracts the first block of a dilated stage too.
        super().__init__(Bottleneck, depths, replace_stride_with_dilation=[False, True, True])
        del self.fc, self.avgpool
        self.normalization = Normalization(pixels)
        self.deep_stem = deep_stem
        if deep_stem:
            del self.conv1, self.bn1
            self.stem = _deep_stem()

    def forward(self, images: Tensor) -> EncoderMaps:
        """Maps of images (N, 3, H, W)."""
        images = self.normalization(images)
        maps = self.stem(images) if self.deep_stem else self.relu(self.bn1(self.conv1(images)))
        low = self.layer1(self.maxpool(maps))
        middle = self.layer3(self.layer2(low))
        return EncoderMaps(low, middle, self.layer4(middle))


def dilated_resnet50(
    weights: Weights = None, *, deep_stem: bool = True, pixels: PixelStatistics = IMAGENET
) -> DilatedResNet:
    """ResNet-50 of stride 8.

    Weights: None, a file with torchvision's names, but `stem.0` … for a deep stem, or, without one, `TORCHVISION`.
    """
    backbone = DilatedResNet([3, 4, 6, 3], deep_stem=deep_stem, pixels=pixels)
    return _with_weights(backbone, weights, ResNet50_Weights.IMAGENET1K_V1)


def dilated_resnet101(
    weights: Weights = None, *, deep_stem: bool = True, pixels: PixelStatistics = IMAGENET
) -> DilatedResNet:
    """ResNet-101 of stride 8. Weights as for `dilated_resnet50`."""
    backbone = DilatedResNet([3, 4, 23, 3], deep_stem=deep_stem, pixels=pixels)
    return _with_weights(backbone, weights, ResNet101_Weights.IMAGENET1K_V1)


def _deep_stem() -> nn.Sequential:
    layers: list[nn.Module] = []
    for in_channels, out_channels, stride in ((3, 32, 2), (32, 32, 1), (32, 64, 1)):
        conv = nn.Conv2d(in_channels, out_channels, 3, stride, padding=1, bias=False)
        nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
        layers += [conv, nn.BatchNorm2d(out_channels), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


def _with_weights(backbone: DilatedResNet, weights: Weights, published: Any) -> DilatedResNet:
    if weights is None:
        return backbone
    if weights == TORCHVISION and backbone.deep_stem:
        raise ValueError("torchvision's weights have no deep stem: give a file, or --set backbone.deep_stem=false")
    state = download(published) if weights == TORCHVISION else read_weights(weights)
    load_backbone(backbone, state, os.fspath(weights))
    return backbone
