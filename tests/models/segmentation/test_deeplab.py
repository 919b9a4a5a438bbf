import pytest
import torch
from torch import nn

from equigrad.models.backbones.encoder_maps import EncoderChannels, EncoderMaps
from equigrad.models.segmentation.deeplab import DeepLabV3PlusHead

CHANNELS = EncoderChannels(low=3, middle=4, last=5)


def encoder_maps():
    shapes = zip(CHANNELS, ((24, 36), (12, 18), (12, 18)), strict=True)
    return EncoderMaps(*(torch.randn(2, channels, *size, requires_grad=True) for channels, size in shapes))


@pytest.mark.parametrize("separable", [True, False])
def test_logits_have_the_resolution_of_the_low_map_and_depend_on_it_and_on_the_last(separable):
    maps = encoder_maps()
    head = DeepLabV3PlusHead(CHANNELS, 7, channels=8, low_channels=4, dilations=(1, 2), separable=separable)
    logits = head(maps)
    assert logits.shape == (2, 7, 24, 36)
    low, middle, last = torch.autograd.grad(logits.square().sum(), maps, allow_unused=True)
    assert middle is None
    assert (low != 0).any()
    assert (last != 0).any()


@pytest.mark.parametrize("separable", [True, False])
def test_branches_look_as_far_as_their_dilations(separable):
    head = DeepLabV3PlusHead(CHANNELS, 7, channels=32, dilations=(1, 2, 4), separable=separable).eval()
    reach = []
    for branch in head.branches:
        last = torch.randn(1, 5, 11, 11, requires_grad=True)
        (gradient,) = torch.autograd.grad(branch(last)[0, :, 5, 5].sum(), last)
        reach.append((gradient[0] != 0).any(0).nonzero()[:, 0].unique().tolist())
    assert reach == [[5], [3, 5, 7], [1, 5, 9]]


def test_separable_branches_have_few_weights():
    def num_weights(separable):
        head = DeepLabV3PlusHead(CHANNELS, 7, channels=8, dilations=(6,), separable=separable)
        return sum(layer.weight.numel() for layer in head.branches.modules() if isinstance(layer, nn.Conv2d))

    assert num_weights(separable=True) == 5 * 9 + 5 * 8
    assert num_weights(separable=False) == 5 * 8 * 9


def test_the_average_of_the_image_reaches_every_pixel():
    head = DeepLabV3PlusHead(CHANNELS, 7, channels=16, dilations=(1,)).eval()
    maps = encoder_maps()
    (gradient,) = torch.autograd.grad(head(maps)[0, :, 0, 0].square().sum(), maps.last)
    assert (gradient[0] != 0).any(0).all()
    assert not gradient[1].any()  # of the other image
