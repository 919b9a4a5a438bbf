import pytest
import torch

from equigrad.models.backbones.small_encoder import SmallEncoder


@pytest.mark.parametrize("size", [(64, 64), (33, 47)])
def test_maps_have_strides_4_8_and_8_and_the_channels_it_says(size):
    encoder = SmallEncoder(4)
    maps = encoder(torch.zeros(2, 3, *size, dtype=torch.uint8))
    assert tuple(map_.shape[1] for map_ in maps) == tuple(encoder.channels) == (8, 16, 32)
    for map_, stride in zip(maps, (4, 8, 8), strict=True):
        assert map_.shape[-2:] == tuple(-(-side // stride) for side in size)


def test_a_width_below_one_is_refused():
    with pytest.raises(ValueError, match="width must be at least 1, got 0"):
        SmallEncoder(0)
