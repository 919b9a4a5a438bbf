"""Backbones as settings: which network, and the weights it starts from.

    equigrad train image_classification:places_lt_resnet152 --set backbone.weights=resnet152.pth

`weights` is None (from scratch), a file, or a word: "torchvision" for the ImageNet weights that torchvision publishes,
"package" for those of EfficientNet-Lite0 that an installed package carries.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, cast

from torch import nn

from equigrad.models.backbones.dilated_efficientnet_lite import DilatedEfficientNetLite0
from equigrad.models.backbones.dilated_resnet import dilated_resnet50, dilated_resnet101
from equigrad.models.backbones.efficientnet_lite import PACKAGE, EfficientNetLite0
from equigrad.models.backbones.normalization import IMAGENET, INATURALIST18
from equigrad.models.backbones.resnets import TORCHVISION, resnet50, resnet101, resnet152, resnext50
from equigrad.models.backbones.small_conv_net import SmallConvNet
from equigrad.models.backbones.small_encoder import SmallEncoder
from equigrad.models.backbones.timm_networks import dilated_timm, timm_backbone
from equigrad.models.detection.pyramids.csp_darknet import csp_darknet_m, csp_darknet_s
from equigrad.models.detection.pyramids.feature_pyramid import ExtraLevels
from equigrad.models.detection.pyramids.lite_fpn import LiteFPN
from equigrad.models.detection.pyramids.resnet_fpn import resnet50_fpn, resnet101_fpn
from equigrad.models.detection.pyramids.small_fpn import SmallFPN
from equigrad.models.detection.pyramids.timm_fpn import timm_pyramid

Depth = Literal[50, 101]


@dataclass(frozen=True)
class SmallConv:
    """A few convolutions, for glyphs.

    Args:
        width: number of channels of the first convolution.
    """

    width: int = 24

    def build(self) -> nn.Module:
        """Build the network, with the weights it starts from."""
        return SmallConvNet(width=self.width)


@dataclass(frozen=True)
class Lite0:
    """EfficientNet-Lite0.

    Args:
        weights: initial weights: a file, or "package" for the installed ones; None trains from scratch.
    """

    weights: str | None = PACKAGE

    def build(self) -> nn.Module:
        """Build the network, with the weights it starts from."""
        return EfficientNetLite0(self.weights)


@dataclass(frozen=True)
class ResNet:
    """A ResNet or ResNeXt for classification.

    Args:
        network: which network.
        weights: initial weights: a file, or "torchvision" to download; None trains from scratch.
        pixels: mean and standard deviation that normalise the images.
    """

    network: Literal["resnet50", "resnext50", "resnet101", "resnet152"] = "resnet50"
    weights: str | None = None
    pixels: Literal["imagenet", "inaturalist18"] = "imagenet"

    def build(self) -> nn.Module:
        """Build the network, with the weights it starts from."""
        networks = {"resnet50": resnet50, "resnext50": resnext50, "resnet101": resnet101, "resnet152": resnet152}
        pixels = {"imagenet": IMAGENET, "inaturalist18": INATURALIST18}[self.pixels]
        return networks[self.network](self.weights, pixels=pixels)


@dataclass(frozen=True)
class SmallPyramid:
    """A small feature pyramid, for glyph scenes.

    Args:
        width: number of channels of the first convolution.
        num_channels: number of channels of every level.
        strides: strides of the levels.
    """

    width: int = 16
    num_channels: int = 64
    strides: tuple[int, ...] = (8, 16, 32)

    def build(self) -> nn.Module:
        """Build the network, with the weights it starts from."""
        return SmallFPN(width=self.width, num_channels=self.num_channels, strides=self.strides)


@dataclass(frozen=True)
class Lite0Pyramid:
    """A feature pyramid on EfficientNet-Lite0.

    Args:
        weights: initial weights: a file, or "package" for the installed ones; None trains from scratch.
        num_channels: number of channels of every level.
        extra: how the levels above P5 are computed; None for no such levels, "pool" for two-stage detectors.
        num_frozen: number of first parts of the backbone that are not trained.
        imagenet_features: classify the objects of a two-stage detector by the features of ImageNet's classifier, too.
    """

    weights: str | None = PACKAGE
    num_channels: int = 96
    extra: ExtraLevels | None = "p5"
    num_frozen: int = 3
    imagenet_features: bool = False

    def build(self) -> nn.Module:
        """Build the network, with the weights it starts from."""
        return LiteFPN(
            self.weights,
            num_channels=self.num_channels,
            extra=self.extra,
            num_frozen=self.num_frozen,
            imagenet_features=self.imagenet_features,
        )


@dataclass(frozen=True)
class ResNetPyramid:
    """A feature pyramid on a ResNet.

    Args:
        depth: number of layers of the ResNet.
        weights: initial weights: a file, or "torchvision" to download; None trains from scratch.
        extra: how the levels above P5 are computed; "pool" is for two-stage detectors.
        extra_relu: use a ReLU between the two levels above P5.
        norm_eps: epsilon of the norms; 0 for torchvision's weights COCO_V1 of Faster R-CNN, Mask R-CNN and RetinaNet.
        fpn_batch_norm: use batch norms in the pyramid, as in torchvision's R-CNNs of version 2.
    """

    depth: Depth = 50
    weights: str | None = TORCHVISION
    extra: ExtraLevels = "p5"
    extra_relu: bool = True
    norm_eps: float = 1e-5
    fpn_batch_norm: bool = False

    def build(self) -> nn.Module:
        """Build the network, with the weights it starts from."""
        build = {50: resnet50_fpn, 101: resnet101_fpn}[self.depth]
        return build(
            self.weights,
            extra=self.extra,
            extra_relu=self.extra_relu,
            norm_eps=self.norm_eps,
            fpn_batch_norm=self.fpn_batch_norm,
        )


@dataclass(frozen=True)
class CspDarknet:
    """YOLOX's backbone and pyramid, from scratch.

    Args:
        size: size of the network, small or medium.
    """

    size: Literal["s", "m"] = "s"

    def build(self) -> nn.Module:
        """Build the network, with the weights it starts from."""
        return csp_darknet_s() if self.size == "s" else csp_darknet_m()


@dataclass(frozen=True)
class SmallSegmentationEncoder:
    """Four convolutions, for glyph scenes with label maps."""

    def build(self) -> nn.Module:
        """Build the network, with the weights it starts from."""
        return SmallEncoder()


@dataclass(frozen=True)
class DilatedLite0:
    """EfficientNet-Lite0 with dilated convolutions, stride 16.

    Args:
        weights: initial weights: a file, or "package" for the installed ones; None trains from scratch.
    """

    weights: str | None = PACKAGE

    def build(self) -> nn.Module:
        """Build the network, with the weights it starts from."""
        return DilatedEfficientNetLite0(self.weights)


@dataclass(frozen=True)
class DilatedResNet:
    """A ResNet with dilated convolutions, stride 8.

    Args:
        depth: number of layers.
        weights: initial weights: a file or, without a deep stem, "torchvision"; None trains from scratch.
        deep_stem: three convolutions instead of the first one (V1c).
    """

    depth: Depth = 50
    weights: str | None = None
    deep_stem: bool = True

    def build(self) -> nn.Module:
        """Build the network, with the weights it starts from."""
        build = {50: dilated_resnet50, 101: dilated_resnet101}[self.depth]
        return build(self.weights, deep_stem=self.deep_stem)


@dataclass(frozen=True)
class Timm:
    """A network of timm for classification.

    Args:
        name: name of the network in timm.
        weights: file of initial weights; None trains from scratch.
    """

    name: str = "resnet18"
    weights: str | None = None

    def build(self) -> nn.Module:
        """Build the network, with the weights it starts from."""
        return timm_backbone(self.name, self.weights)


@dataclass(frozen=True)
class TimmPyramid:
    """A feature pyramid on a network of timm.

    Args:
        name: name of the network in timm.
        weights: file of initial weights; None trains from scratch.
        num_channels: number of channels of every level.
        extra: how the levels above P5 are computed; None for no such levels, "pool" for two-stage detectors.
    """

    name: str = "resnet18"
    weights: str | None = None
    num_channels: int = 256
    extra: ExtraLevels | None = "p5"

    def build(self) -> nn.Module:
        """Build the network, with the weights it starts from."""
        return timm_pyramid(self.name, self.weights, num_channels=self.num_channels, extra=self.extra)


@dataclass(frozen=True)
class DilatedTimm:
    """A network of timm with dilated convolutions.

    Args:
        name: name of the network in timm.
        weights: file of initial weights; None trains from scratch.
        output_stride: stride of the last map: 8, 16, or 32 without dilation.
    """

    name: str = "resnet18"
    weights: str | None = None
    output_stride: Literal[8, 16, 32] = 16

    def build(self) -> nn.Module:
        """Build the network, with the weights it starts from."""
        return dilated_timm(self.name, self.weights, output_stride=self.output_stride)


ClassificationBackbone = SmallConv | Lite0 | ResNet | Timm
PyramidBackbone = SmallPyramid | Lite0Pyramid | ResNetPyramid | CspDarknet | TimmPyramid
SegmentationBackbone = SmallSegmentationEncoder | DilatedLite0 | DilatedResNet | DilatedTimm

Backbone = TypeVar("Backbone", bound=ClassificationBackbone | PyramidBackbone | SegmentationBackbone)


def without_weights(backbone: Backbone) -> Backbone:
    """The same network without reading weights, for a model whose weights come from a run."""
    return with_weights(backbone, None) if hasattr(backbone, "weights") else backbone


def with_weights(backbone: Backbone, weights: str | None) -> Backbone:
    """The same network, starting from other weights."""
    changed: Any = backbone
    return cast(Backbone, replace(changed, weights=weights))
