"""ResNets for classification: torchvision's, from images to one feature vector each.

Parts keep torchvision's names. In a `Classifier` their paths are `backbone.conv1`, `backbone.bn1`, `backbone.layer1` …
`backbone.layer4`, each layer a sequence of blocks (`backbone.layer4.2` is the last one of ResNet-50, -101 and -152).
"""

import os
import urllib.error
from typing import Any

from torch import Tensor, nn
from torchvision.models import (  # type: ignore[import-untyped]
    ResNet,
    ResNet50_Weights,
    ResNet101_Weights,
    ResNet152_Weights,
    ResNeXt50_32X4D_Weights,
)
from torchvision.models.resnet import Bottleneck  # type: ignore[import-untyped]

from equigrad.models.backbones.normalization import IMAGENET, Normalization, PixelStatistics
from equigrad.models.backbones.pretrained import load_backbone, read_weights

TORCHVISION = "torchvision"  # in place of a file: torchvision's own ImageNet weights, downloaded once
Weights = str | os.PathLike[str] | None


class ResNetFeatures(ResNet):  # type: ignore[misc]
    """A ResNet without its classifier; from scratch it starts as torchvision's does (MSRA)."""

    num_features: int
    fc: nn.Module

    def __init__(
        self, depths: list[int], *, groups: int = 1, width_per_group: int = 64, pixels: PixelStatistics = IMAGENET
    ) -> None:
        super().__init__(Bottleneck, depths, groups=groups, width_per_group=width_per_group)
        self.num_features = 512 * Bottleneck.expansion
        self.fc = nn.Identity()
        self.normalization = Normalization(pixels)

    def forward(self, images: Tensor) -> Tensor:
        """Features (N, D) of images (N, 3, H, W)."""
        features: Tensor = super().forward(self.normalization(images))
        return features


def resnet50(weights: Weights = None, *, pixels: PixelStatistics = IMAGENET) -> ResNetFeatures:
    """ResNet-50, 2,048 features. Weights: None, a file with torchvision's names, or `TORCHVISION`."""
    backbone = ResNetFeatures([3, 4, 6, 3], pixels=pixels)
    return _with_weights(backbone, weights, ResNet50_Weights.IMAGENET1K_V1)


def resnet101(weights: Weights = None, *, pixels: PixelStatistics = IMAGENET) -> ResNetFeatures:
    """ResNet-101, 2,048 features. Weights: None, a file in torchvision's layout, or `TORCHVISION`."""
    backbone = ResNetFeatures([3, 4, 23, 3], pixels=pixels)
    return _with_weights(backbone, weights, ResNet101_Weights.IMAGENET1K_V1)


def resnext50(weights: Weights = None, *, pixels: PixelStatistics = IMAGENET) -> ResNetFeatures:
    """ResNeXt-50 (32x4d), 2,048 features. Weights: None, a file with torchvision's names, or `TORCHVISION`."""
    backbone = ResNetFeatures([3, 4, 6, 3], groups=32, width_per_group=4, pixels=pixels)
    return _with_weights(backbone, weights, ResNeXt50_32X4D_Weights.IMAGENET1K_V1)


def resnet152(weights: Weights = None, *, pixels: PixelStatistics = IMAGENET) -> ResNetFeatures:
    """ResNet-152, 2,048 features. Weights: None, a file with torchvision's names, or `TORCHVISION`."""
    backbone = ResNetFeatures([3, 8, 36, 3], pixels=pixels)
    return _with_weights(backbone, weights, ResNet152_Weights.IMAGENET1K_V1)


def _with_weights(backbone: ResNetFeatures, weights: Weights, published: Any) -> ResNetFeatures:
    if weights is None:
        return backbone
    state = download(published) if weights == TORCHVISION else read_weights(weights)
    load_backbone(backbone, state, os.fspath(weights))
    return backbone


def download(published: Any) -> Any:
    """Weights that torchvision publishes, from its cache or the network; one line if neither has them."""
    try:
        return published.get_state_dict(progress=True, check_hash=True)
    except (urllib.error.URLError, OSError) as error:
        # A URLError wraps the OSError of the network; a proxy or a full disk raises other errors.
        cause = getattr(error, "reason", error)
        text = getattr(cause, "strerror", None) or cause
        raise OSError(f"cannot download {published.url} ({text}); fetch it elsewhere and give the file") from error
