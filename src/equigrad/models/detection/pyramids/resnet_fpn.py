"""ResNet-50 and -101 with a feature pyramid, the backbones of the detectors. Weights have torchvision's names.

The stem, the first stage and every batch norm are frozen: two images per GPU are too few to estimate statistics.
In a detector the paths are `body.conv1`, `body.bn1`, `body.layer1` … `body.layer4`, `fpn.inner_blocks` (lateral),
`fpn.layer_blocks` (output) and `fpn.extra_blocks`, below the name the detector gives the pyramid.
"""

import os
import re
from functools import partial
from typing import Any, Self

from torch import Tensor, nn
from torchvision.models import ResNet, ResNet50_Weights, ResNet101_Weights  # type: ignore[import-untyped]
from torchvision.models.resnet import Bottleneck  # type: ignore[import-untyped]

from equigrad.models.backbones.frozen_norm import FrozenNorm
from equigrad.models.backbones.normalization import IMAGENET, Normalization, PixelStatistics
from equigrad.models.backbones.pretrained import load_backbone, read_weights
from equigrad.models.backbones.resnets import TORCHVISION, Weights, download
from equigrad.models.detection.pyramids.feature_pyramid import ExtraLevels, FeaturePyramid

_STAGES = ("layer1", "layer2", "layer3", "layer4")


class ResNetFPN(nn.Module):
    """Images to levels of 256 channels: P3-P7, or P2-P6 with `extra="pool"`. A level's size is rounded up.

    Without weights the frozen norms do nothing and the frozen stem is random, which is of use in tests only.

    Args:
        depths: blocks of the four stages.
        extra: where the levels above P5 come from; see `FeaturePyramid`.
        extra_relu: a ReLU between the convolutions of P6 and P7; see `FeaturePyramid`.
        num_frozen: how many of the stem and the four stages are not trained.
        norm_eps: epsilon of the norms; 0.0 for torchvision's `COCO_V1` of Faster R-CNN, Mask R-CNN and RetinaNet.
        fpn_batch_norm: a batch norm after each convolution of the pyramid, as in torchvision's R-CNNs of version 2.
        pixels: mean and standard deviation that images are normalised with.
    """

    num_channels = 256

    def __init__(
        self,
        depths: list[int],
        *,
        extra: ExtraLevels = "p5",
        extra_relu: bool = True,
        num_frozen: int = 2,
        norm_eps: float = 1e-5,
        fpn_batch_norm: bool = False,
        pixels: PixelStatistics = IMAGENET,
    ) -> None:
        super().__init__()
        if not 0 <= num_frozen <= 5:
            raise ValueError(f"num_frozen must be 0 (nothing) to 5 (stem and all stages), got {num_frozen}")
        self.normalization = Normalization(pixels)
        self.body = _Body(depths, norm_eps)
        self.first_stage = 0 if extra == "pool" else 1
        in_channels = [256, 512, 1024, 2048][self.first_stage :]
        self.fpn = FeaturePyramid(
            in_channels, self.num_channels, extra=extra, extra_relu=extra_relu, batch_norm=fpn_batch_norm
        )
        self.strides = self.fpn.strides(4 * 2**self.first_stage)
        self.num_frozen = num_frozen
        for part in self._frozen_parts():
            part.requires_grad_(False)
        self.train()

    def forward(self, images: Tensor) -> list[Tensor]:
        """Levels (B, 256, ceil(H / stride), ceil(W / stride)) of images (B, 3, H, W)."""
        maps = self.body(self.normalization(images))
        levels: list[Tensor] = self.fpn(maps[self.first_stage :])
        return levels

    def train(self, mode: bool = True) -> Self:
        """Set training mode; parts that are not trained stay in evaluation mode."""
        super().train(mode)
        for part in self._frozen_parts():
            part.eval()
        return self

    def _frozen_parts(self) -> list[nn.Module]:
        parts = [nn.ModuleList([self.body.conv1, self.body.bn1]), *(getattr(self.body, name) for name in _STAGES)]
        return parts[: self.num_frozen]


class _Body(ResNet):  # type: ignore[misc]
    """Maps C2, C3, C4, C5 of normalised images."""

    def __init__(self, depths: list[int], norm_eps: float) -> None:
        super().__init__(Bottleneck, depths, norm_layer=partial(FrozenNorm, eps=norm_eps))
        del self.fc, self.avgpool

    def forward(self, images: Tensor) -> list[Tensor]:
        maps = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        stages = []
        for name in _STAGES:
            maps = getattr(self, name)(maps)
            stages.append(maps)
        return stages


def _resnet_fpn(
    depths: list[int],
    published: Any,
    weights: Weights = None,
    *,
    extra: ExtraLevels = "p5",
    extra_relu: bool = True,
    num_frozen: int = 2,
    norm_eps: float = 1e-5,
    fpn_batch_norm: bool = False,
    pixels: PixelStatistics = IMAGENET,
) -> ResNetFPN:
    """A ResNet with a pyramid; see `resnet50_fpn`."""
    pyramid = ResNetFPN(
        depths,
        extra=extra,
        extra_relu=extra_relu,
        num_frozen=num_frozen,
        norm_eps=norm_eps,
        fpn_batch_norm=fpn_batch_norm,
        pixels=pixels,
    )
    if weights is not None:
        state = download(published) if weights == TORCHVISION else read_weights(weights)
        state = {present_name(name): value for name, value in state.items()}
        of_detector = any("body.conv1." in name for name in state)
        load_backbone(pyramid if of_detector else pyramid.body, state, os.fspath(weights))
    return pyramid


resnet50_fpn = partial(_resnet_fpn, [3, 4, 6, 3], ResNet50_Weights.IMAGENET1K_V1)
"""ResNet-50 with a pyramid; options as in `ResNetFPN`.

Weights: None, `TORCHVISION` (ImageNet), or a file in torchvision's layout, of a classifier or of a whole detector.
"""

resnet101_fpn = partial(_resnet_fpn, [3, 4, 23, 3], ResNet101_Weights.IMAGENET1K_V1)
"""ResNet-101 with a pyramid; arguments as for `resnet50_fpn`."""


def present_name(name: str) -> str:
    """The name that torchvision's pyramid has today for a weight, from the name of 2019 or of today."""
    return re.sub(r"(fpn\.(?:inner|layer)_blocks\.\d+)\.(weight|bias)$", r"\1.0.\2", name)
