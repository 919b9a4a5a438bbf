"""Encoders of segmenters keep what `EncoderMaps` and `EncoderChannels` promise to the heads."""

import pytest
import torch

from equigrad.models.backbones.dilated_efficientnet_lite import DilatedEfficientNetLite0
from equigrad.models.backbones.dilated_resnet import dilated_resnet50
from equigrad.models.backbones.encoder_maps import EncoderMaps
from equigrad.models.backbones.small_encoder import SmallEncoder

# Encoder and its output stride.
ENCODERS = {
    "small": (SmallEncoder, 8),
    "EfficientNet-Lite0": (DilatedEfficientNetLite0, 16),
    "ResNet-50": (dilated_resnet50, 8),
}


@pytest.mark.parametrize(("make", "stride"), ENCODERS.values(), ids=ENCODERS)
def test_maps_have_the_channels_the_encoder_names_at_strides_of_4_and_of_the_output(make, stride):
    encoder = make().to("meta")
    maps = encoder(torch.zeros(2, 3, 64, 96, dtype=torch.uint8, device="meta"))
    assert isinstance(maps, EncoderMaps)
    assert tuple(level.shape[1] for level in maps) == tuple(encoder.channels)
    assert maps.low.shape[-2:] == (16, 24)
    assert maps.middle.shape[-2:] == maps.last.shape[-2:] == (64 // stride, 96 // stride)
