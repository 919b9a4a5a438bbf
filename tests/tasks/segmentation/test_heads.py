import inspect
from dataclasses import fields

import pytest
import torch
from torch import nn

from equigrad.models.backbones.encoder_maps import EncoderChannels, EncoderMaps
from equigrad.models.segmentation.deeplab import DeepLabV3PlusHead
from equigrad.models.segmentation.pspnet import PSPHead
from equigrad.tasks.segmentation.heads import DeepLabV3Plus, PSPNet

CHANNELS = EncoderChannels(4, 6, 8)
HEADS = {PSPNet: PSPHead, DeepLabV3Plus: DeepLabV3PlusHead}
OTHER = [
    PSPNet(channels=16, grids=(1, 3), dropout=0.3),
    DeepLabV3Plus(channels=16, low_channels=5, dilations=(1, 2, 4), separable=False, dropout=0.3),
]


def maps():
    return EncoderMaps(torch.randn(2, 4, 16, 16), torch.randn(2, 6, 8, 8), torch.randn(2, 8, 4, 4))


@pytest.mark.parametrize("settings", HEADS)
def test_fields_and_defaults_are_those_of_the_head(settings):
    parameters = list(inspect.signature(HEADS[settings]).parameters.values())[2:]
    assert {field.name: field.default for field in fields(settings)} == {
        parameter.name: parameter.default for parameter in parameters
    }


@pytest.mark.parametrize("settings", [PSPNet(), DeepLabV3Plus(), *OTHER], ids=str)
def test_a_head_is_built_with_all_its_settings(settings):
    kind = HEADS[type(settings)]
    built, expected = settings(CHANNELS, 7), kind(CHANNELS, 7, **vars(settings))
    assert type(built) is kind
    assert repr(built) == repr(expected)  # grids, dilations and dropout are in no state_dict


@pytest.mark.parametrize(("settings", "side"), [(OTHER[0], 4), (OTHER[1], 16)], ids=["psp", "deeplab"])
def test_a_head_gives_logits_at_its_resolution(settings, side):
    assert settings(CHANNELS, 7)(maps()).shape == (2, 7, side, side)


def test_settings_are_seen_in_the_layers():
    psp, deeplab = (settings(CHANNELS, 7) for settings in OTHER)
    assert [level[0].output_size for level in psp.levels] == [1, 3]
    dilations = {part.dilation[0] for part in deeplab.branches.modules() if isinstance(part, nn.Conv2d)}
    assert dilations == {1, 2, 4}
    assert deeplab.low[0].out_channels == 5
    assert deeplab.classifier.dropout.p == psp.classifier.dropout.p == 0.3
    is_grouped = [
        any(part.groups > 1 for part in DeepLabV3Plus(channels=8, separable=separable)(CHANNELS, 7).modules()
            if isinstance(part, nn.Conv2d))
        for separable in (True, False)
    ]  # fmt: skip
    assert is_grouped == [True, False]
