"""Each backbone dataclass against the network that it stands for."""

import inspect
from dataclasses import MISSING, fields
from functools import partial
from typing import get_args

import pytest
import torch

from equigrad.models.backbones.dilated_efficientnet_lite import DilatedEfficientNetLite0
from equigrad.models.backbones.dilated_resnet import dilated_resnet50, dilated_resnet101
from equigrad.models.backbones.efficientnet_lite import PACKAGE, EfficientNetLite0
from equigrad.models.backbones.normalization import IMAGENET, INATURALIST18
from equigrad.models.backbones.resnets import TORCHVISION, resnet50, resnet101, resnet152, resnext50
from equigrad.models.backbones.small_conv_net import SmallConvNet
from equigrad.models.backbones.small_encoder import SmallEncoder
from equigrad.models.backbones.timm_networks import dilated_timm, timm_backbone
from equigrad.models.detection.pyramids.csp_darknet import csp_darknet_m, csp_darknet_s
from equigrad.models.detection.pyramids.lite_fpn import LiteFPN
from equigrad.models.detection.pyramids.resnet_fpn import resnet50_fpn, resnet101_fpn
from equigrad.models.detection.pyramids.small_fpn import SmallFPN
from equigrad.models.detection.pyramids.timm_fpn import timm_pyramid
from equigrad.tasks import backbones
from equigrad.tasks.backbones import with_weights, without_weights

NETWORKS = [
    (backbones.SmallConv(), SmallConvNet),
    (backbones.SmallConv(width=8), partial(SmallConvNet, width=8)),
    (backbones.Lite0(None), EfficientNetLite0),
    (backbones.ResNet(), resnet50),
    (backbones.ResNet("resnext50"), resnext50),
    (backbones.ResNet("resnet101"), resnet101),
    (backbones.ResNet("resnet152"), resnet152),
    (backbones.SmallPyramid(), SmallFPN),
    (
        backbones.SmallPyramid(4, num_channels=8, strides=(4, 8)),
        partial(SmallFPN, 4, num_channels=8, strides=(4, 8)),
    ),
    (backbones.Lite0Pyramid(None), LiteFPN),
    (
        backbones.Lite0Pyramid(None, num_channels=32, extra="pool", num_frozen=5),
        partial(LiteFPN, num_channels=32, extra="pool", num_frozen=5),
    ),
    (backbones.ResNetPyramid(weights=None), resnet50_fpn),
    (
        backbones.ResNetPyramid(101, None, extra="lateral", extra_relu=False),
        partial(resnet101_fpn, extra="lateral", extra_relu=False),
    ),
    (backbones.CspDarknet(), csp_darknet_s),
    (backbones.CspDarknet("m"), csp_darknet_m),
    (backbones.SmallSegmentationEncoder(), SmallEncoder),
    (backbones.DilatedLite0(None), DilatedEfficientNetLite0),
    (backbones.DilatedResNet(), dilated_resnet50),
    (backbones.DilatedResNet(101, deep_stem=False), partial(dilated_resnet101, deep_stem=False)),
    (backbones.Timm("test_resnet"), partial(timm_backbone, "test_resnet")),
    (
        backbones.TimmPyramid("test_resnet", num_channels=64, extra="pool"),
        partial(timm_pyramid, "test_resnet", num_channels=64, extra="pool"),
    ),
    (backbones.DilatedTimm("test_resnet", output_stride=8), partial(dilated_timm, "test_resnet", output_stride=8)),
]
OFFERED = (
    *get_args(backbones.ClassificationBackbone),
    *get_args(backbones.PyramidBackbone),
    *get_args(backbones.SegmentationBackbone),
)
# Choices between networks, or between names of what the network takes as an object.
ONLY_HERE = {"network", "depth", "size", "pixels", "name"}
WITH_WEIGHTS = [kind for kind in OFFERED if "weights" in {field.name for field in fields(kind)}]


def shapes(network):
    return {name: (tuple(value.shape), value.dtype) for name, value in network.state_dict().items()}


def trained(network):
    return {name for name, weight in network.named_parameters() if weight.requires_grad}


def test_every_backbone_that_a_recipe_may_have_is_compared_here():
    assert {type(settings) for settings, _ in NETWORKS} == set(OFFERED)


@pytest.mark.parametrize(("settings", "network"), NETWORKS, ids=lambda part: str(part) if part in OFFERED else None)
def test_settings_build_the_network_they_name(settings, network):
    with torch.device("meta"):  # shapes alone, at once
        built, expected = settings.build(), network()
    assert type(built) is type(expected)
    assert shapes(built) == shapes(expected)
    assert trained(built) == trained(expected)


@pytest.mark.parametrize(("settings", "network"), NETWORKS)
def test_defaults_are_those_of_the_network(settings, network):
    parameters = inspect.signature(network.func if isinstance(network, partial) else network).parameters
    for field in fields(settings):
        if field.name not in ONLY_HERE | {"weights"}:
            assert field.default is not MISSING
            assert field.default == parameters[field.name].default, field.name


@pytest.mark.parametrize(("extra", "relu"), [("p5", True), ("lateral", False), ("c5", False)])
def test_the_levels_above_p5_are_made_as_asked(extra, relu):
    with torch.device("meta"):
        pyramid = backbones.ResNetPyramid(weights=None, extra=extra, extra_relu=relu).build().fpn
    assert (pyramid.extra, pyramid.extra_blocks.relu) == (extra, relu)


def test_a_resnet_normalises_images_as_its_benchmark_asks():
    with torch.device("meta"):
        built = [backbones.ResNet(pixels=pixels).build() for pixels in ("imagenet", "inaturalist18")]
    assert [network.normalization.pixels for network in built] == [IMAGENET, INATURALIST18]


@pytest.mark.parametrize("kind", [kind for kind in WITH_WEIGHTS if kind.__name__.endswith(("Lite0", "Lite0Pyramid"))])
def test_the_lite_networks_start_from_the_weights_of_the_package(kind):
    assert kind().weights == PACKAGE


def test_pyramids_of_published_detectors_start_from_imagenet_and_other_resnets_from_scratch():
    assert backbones.ResNetPyramid().weights == TORCHVISION
    assert backbones.ResNet().weights is backbones.DilatedResNet().weights is None


@pytest.mark.parametrize("kind", WITH_WEIGHTS)
def test_a_weight_file_that_is_not_there_is_named_when_the_network_is_built(kind):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.pth: no such weight file"):
        with_weights(kind(), "nowhere.pth").build()


@pytest.mark.parametrize("kind", WITH_WEIGHTS)
def test_without_weights_only_the_weights_change(kind):
    settings = with_weights(kind(), "mine.pth")
    assert settings == kind(weights="mine.pth")
    assert without_weights(settings) == kind(weights=None)


@pytest.mark.parametrize("kind", [kind for kind in OFFERED if kind not in WITH_WEIGHTS])
def test_a_network_that_reads_no_weights_stays_as_it_is(kind):
    settings = kind()
    assert without_weights(settings) is settings
    with pytest.raises(TypeError, match="weights"):
        with_weights(settings, "mine.pth")
