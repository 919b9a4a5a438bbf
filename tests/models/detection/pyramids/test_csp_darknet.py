import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from equigrad.models.detection.pyramids.csp_darknet import (
    CSPDarknetPAFPN,
    SpatialPyramidPooling,
    csp_darknet_m,
    csp_darknet_s,
)
from models.pyramid_checks import check_bytes_and_fractions, check_channels_last, check_levels, moved_in_a_step

SIZES = {csp_darknet_s: 0.5, csp_darknet_m: 0.75}  # width
# Depth, width, blocks, and millions of parameters with the head at 80 classes: the table of YOLOX's paper and README.
PUBLISHED = {"S": (0.33, 0.5, 1, 9.0), "M": (0.67, 0.75, 2, 25.3), "L": (1.0, 1.0, 3, 54.2), "X": (1.33, 1.25, 4, 99.1)}


def conv(in_channels, out_channels, size):
    """Parameters of a convolution without bias and its batch norm."""
    return in_channels * out_channels * size**2 + 2 * out_channels


def cross_stage(in_channels, out_channels, num_blocks):
    half = out_channels // 2
    block = conv(half, half, 1) + conv(half, half, 3)
    return 2 * conv(in_channels, half, 1) + num_blocks * block + conv(2 * half, out_channels, 1)


def backbone_and_paths(width, n):
    """Added up from the published layers: Focus, four stages with SPP in the last, then PAFPN."""
    c1, c2, c3, c4, c5 = (int(width * 64 * 2**i) for i in range(5))
    backbone = conv(12, c1, 3) + conv(c1, c2, 3) + cross_stage(c2, c2, n)
    backbone += conv(c2, c3, 3) + cross_stage(c3, c3, 3 * n) + conv(c3, c4, 3) + cross_stage(c4, c4, 3 * n)
    backbone += conv(c4, c5, 3) + conv(c5, c5 // 2, 1) + conv(2 * c5, c5, 1) + cross_stage(c5, c5, n)
    down = conv(c5, c4, 1) + cross_stage(2 * c4, c4, n) + conv(c4, c3, 1) + cross_stage(2 * c3, c3, n)
    up = conv(c3, c3, 3) + cross_stage(2 * c3, c4, n) + conv(c4, c4, 3) + cross_stage(2 * c4, c5, n)
    return backbone + down + up


def outputs(width):
    """The 1x1 convolutions that YOLOX counts to its head."""
    channels = int(256 * width)
    return sum(conv(channels * 2**level, channels, 1) for level in range(3))


def head(width, num_classes):
    """The rest of YOLOX's head: per level two towers of two convolutions, then categories, boxes and objectness."""
    channels = int(256 * width)
    return 3 * (4 * conv(channels, channels, 3) + (num_classes + 4 + 1) * (channels + 1))


def num_parameters(pyramid):
    return sum(parameter.numel() for parameter in pyramid.parameters())


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_as_many_as_published(name):
    depth, width, num_blocks, millions = PUBLISHED[name]
    with torch.device("meta"):
        pyramid = CSPDarknetPAFPN(depth=depth, width=width)
    assert num_parameters(pyramid) == backbone_and_paths(width, num_blocks) + outputs(width)
    assert round((num_parameters(pyramid) + head(width, 80)) / 1e6, 1) == millions


def test_s_and_m_are_built_in_their_sizes():
    with torch.device("meta"):
        totals = [num_parameters(build()) + head(width, 80) for build, width in SIZES.items()]
    assert totals == [8_968_255, 25_326_495]


@pytest.mark.parametrize("build", SIZES, ids=lambda build: build.__name__)
def test_levels_have_strides_8_16_and_32(build):
    with torch.device("meta"):
        pyramid = build()
    check_levels(pyramid, 96, 160)
    assert pyramid.num_channels == 256 * SIZES[build]
    assert pyramid.strides == (8, 16, 32)


@pytest.mark.parametrize("size", [(96, 80), (33, 64)])
def test_sides_that_are_no_multiples_of_32_are_refused(size):
    with torch.device("meta"):
        pyramid = csp_darknet_s()
        with pytest.raises(ValueError, match=rf"multiples of 32, got \({size[0]}, {size[1]}\)"):
            pyramid(torch.zeros(1, 3, *size))


def test_norms_are_those_of_yolox():
    with torch.device("meta"):
        norms = [module for module in csp_darknet_s().modules() if isinstance(module, nn.BatchNorm2d)]
    assert {(norm.eps, norm.momentum) for norm in norms} == {(1e-3, 0.03)}


def test_pooling_is_over_squares_of_5_9_and_13():
    torch.manual_seed(0)
    pooling = SpatialPyramidPooling(8).eval()
    maps = torch.randn(1, 8, 20, 17)
    reduced = pooling.reduce(maps)
    pooled = [F.max_pool2d(reduced, size, stride=1, padding=size // 2) for size in (5, 9, 13)]
    assert_close(pooling(maps), pooling.join(torch.cat([reduced, *pooled], 1)))


@pytest.fixture
def tiny():
    torch.manual_seed(0)
    return CSPDarknetPAFPN(depth=0.33, width=0.125)


def test_a_step_of_training_reaches_everything(tiny):
    moved = moved_in_a_step(tiny)
    assert moved == tiny.state_dict().keys()


def test_channels_last_gives_the_same_levels_and_gradients(tiny):
    check_channels_last(tiny)


def test_bytes_and_fractions_are_the_same_image_and_enter_as_they_are(tiny):
    check_bytes_and_fractions(tiny)
    images = torch.randint(0, 256, (1, 3, 4, 4), dtype=torch.uint8)
    assert_close(tiny.normalization(images), images.float())
