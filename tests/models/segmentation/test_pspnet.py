import pytest
import torch
from torch import nn

from equigrad.models.backbones.encoder_maps import EncoderChannels, EncoderMaps
from equigrad.models.segmentation.pspnet import PSPHead

CHANNELS = EncoderChannels(low=3, middle=4, last=5)


def encoder_maps():
    shapes = zip(CHANNELS, ((24, 36), (12, 18), (12, 18)), strict=True)
    return EncoderMaps(*(torch.randn(2, channels, *size, requires_grad=True) for channels, size in shapes))


def seen_by_the_first_pixel(grids):
    """Where the last map can change the logits of the pixel in the top left corner, (12, 18)."""
    maps = encoder_maps()
    logits = PSPHead(CHANNELS, 7, channels=16, grids=grids).eval()(maps)
    (gradient,) = torch.autograd.grad(logits[0, :, 0, 0].square().sum(), maps.last)
    return (gradient[0] != 0).any(0)


def test_logits_have_the_resolution_of_the_last_map_and_depend_on_it_alone():
    maps = encoder_maps()
    logits = PSPHead(CHANNELS, 7, channels=8)(maps)
    assert logits.shape == (2, 7, 12, 18)
    gradients = torch.autograd.grad(logits.square().sum(), maps, allow_unused=True)
    assert gradients[0] is gradients[1] is None
    assert (gradients[2] != 0).any()


def test_the_pyramid_shows_every_pixel_the_whole_image():
    assert seen_by_the_first_pixel(grids=(1,)).all()
    beside = seen_by_the_first_pixel(grids=())
    assert beside[:2, :2].all()
    assert beside.sum() == 4


@pytest.mark.parametrize("grids", [(1,), (1, 2, 3, 6)])
def test_every_level_averages_its_regions_before_it_is_reduced(grids):
    head = PSPHead(CHANNELS, 7, channels=8, grids=grids)
    assert [level[0].output_size for level in head.levels] == list(grids)
    assert [level(torch.randn(2, 5, 12, 18)).shape[-2:] for level in head.levels] == [(grid, grid) for grid in grids]
    fused = next(module for module in head.fuse.modules() if isinstance(module, nn.Conv2d))
    assert fused.in_channels == CHANNELS.last + 8 * len(grids)
