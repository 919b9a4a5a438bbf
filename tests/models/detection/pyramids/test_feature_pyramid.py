from collections import OrderedDict

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close
from torchvision.ops import FeaturePyramidNetwork
from torchvision.ops.feature_pyramid_network import LastLevelMaxPool, LastLevelP6P7

from equigrad.models.detection.pyramids.feature_pyramid import FeaturePyramid

IN_CHANNELS = (6, 8, 12)


@pytest.fixture
def maps():
    generator = torch.Generator().manual_seed(0)
    sizes = ((13, 10), (7, 5), (4, 3))
    return [torch.randn(2, c, *size, generator=generator) for c, size in zip(IN_CHANNELS, sizes, strict=True)]


@pytest.mark.parametrize(
    ("extra", "blocks"), [("c5", LastLevelP6P7(12, 4)), ("p5", LastLevelP6P7(4, 4)), ("pool", LastLevelMaxPool())]
)
def test_levels_are_those_of_torchvision_with_the_same_weights(extra, blocks, maps):
    reference = FeaturePyramidNetwork(list(IN_CHANNELS), 4, blocks)
    pyramid = FeaturePyramid(IN_CHANNELS, 4, extra=extra)
    pyramid.load_state_dict(reference.state_dict())
    expected = reference(OrderedDict(zip("abc", maps, strict=True)))
    levels = pyramid(maps)
    assert len(levels) == len(expected) == len(pyramid.strides(8))
    for level, of_torchvision in zip(levels, expected.values(), strict=True):
        assert_close(level, of_torchvision)


def test_lateral_takes_the_last_map_before_its_output_convolution(maps):
    pyramid = FeaturePyramid(IN_CHANNELS, 4, extra="lateral", extra_relu=False)
    p6, p7 = pyramid(maps)[3:]
    lateral = pyramid.inner_blocks[2](maps[2])
    assert_close(p6, F.conv2d(lateral, pyramid.extra_blocks.p6.weight, stride=2, padding=1))
    assert_close(p7, F.conv2d(p6, pyramid.extra_blocks.p7.weight, stride=2, padding=1))


def test_the_relu_is_before_the_last_level_alone(maps):
    pyramid = FeaturePyramid(IN_CHANNELS, 4, extra="p5")
    p6, p7 = pyramid(maps)[3:]
    assert (p6 < 0).any()
    assert_close(p7, pyramid.extra_blocks.p7(p6.clamp(min=0)))


def test_c5_is_meant_even_where_its_channels_are_as_many_as_the_levels():
    maps = [torch.randn(1, 4, 4, 4)]
    pyramid = FeaturePyramid([4], 4, extra="c5")
    assert_close(pyramid(maps)[1], pyramid.extra_blocks.p6(maps[0]))


def test_no_extra_levels_are_made_unless_asked_for(maps):
    pyramid = FeaturePyramid(IN_CHANNELS, 4, extra=None)
    assert [level.shape[-2:] for level in pyramid(maps)] == [each.shape[-2:] for each in maps]
    assert pyramid.strides(8) == (8, 16, 32)


@pytest.mark.parametrize(("extra", "strides"), [("p5", (8, 16, 32, 64, 128)), ("pool", (8, 16, 32, 64))])
def test_strides_double(extra, strides):
    assert FeaturePyramid(IN_CHANNELS, 4, extra=extra).strides(8) == strides


def test_a_norm_gives_levels_of_one_scale(maps):
    maps = [100 * maps[0], maps[1], maps[2] / 100]
    levels = FeaturePyramid(IN_CHANNELS, 4, extra=None, norm_groups=2)(maps)
    for level in levels:
        grouped = level.reshape(2, 2, -1)
        assert_close(grouped.mean(2), torch.zeros(2, 2), rtol=0, atol=1e-4)
        assert_close(grouped.std(2, correction=0), torch.ones(2, 2), rtol=0, atol=0.02)


def test_an_unknown_source_is_refused():
    with pytest.raises(ValueError, match="extra must be one of 'c5', 'lateral', 'p5', 'pool', None, got 'p6'"):
        FeaturePyramid(IN_CHANNELS, 4, extra="p6")
