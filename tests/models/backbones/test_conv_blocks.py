import pytest
import torch
from torch.testing import assert_close

from equigrad.models.backbones.conv_blocks import conv_norm_relu, separable_conv


@pytest.mark.parametrize(("kernel_size", "dilation"), [(1, 1), (3, 1), (3, 4)])
def test_a_block_is_a_convolution_of_the_same_size_normalised_and_cut_at_zero(kernel_size, dilation):
    block = conv_norm_relu(3, 5, kernel_size, dilation=dilation)
    maps = torch.randn(2, 3, 7, 9)
    convolved = block[0](maps)
    assert convolved.shape == (2, 5, 7, 9)
    mean, variance = convolved.mean((0, 2, 3), keepdim=True), convolved.var((0, 2, 3), keepdim=True, correction=0)
    assert_close(block(maps), ((convolved - mean) / (variance + 1e-5).sqrt()).relu())


def test_a_dilated_block_sees_nine_pixels_that_far_apart():
    block = conv_norm_relu(1, 8, 3, dilation=2).eval()
    maps = torch.ones(1, 1, 9, 9, requires_grad=True)
    (gradient,) = torch.autograd.grad(block[0](maps)[0, :, 4, 4].square().sum(), maps)
    assert gradient[0, 0].nonzero().tolist() == [[y, x] for y in (2, 4, 6) for x in (2, 4, 6)]


def test_a_separable_block_filters_every_channel_by_itself_and_mixes_them_afterwards():
    depthwise, pointwise = separable_conv(4, 6, dilation=3).eval()
    maps = torch.randn(1, 4, 8, 8)
    changed = maps.clone()
    changed[:, 2] += 1
    differs = (depthwise[0](changed) != depthwise[0](maps)).flatten(2).any(2)[0]
    assert differs.tolist() == [False, False, True, False]
    assert depthwise[0].dilation == (3, 3)
    assert pointwise[0].weight.shape == (6, 4, 1, 1)
    assert pointwise(depthwise(maps)).shape == (1, 6, 8, 8)
