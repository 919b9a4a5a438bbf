import pytest
import torch
from torch.testing import assert_close

from equigrad.models.backbones.dilated_efficientnet_lite import DilatedEfficientNetLite0
from equigrad.models.backbones.efficientnet_lite import PACKAGE


@pytest.mark.parametrize(("output_stride", "last"), [(8, (8, 12)), (16, (4, 6)), (32, (2, 3))])
def test_the_output_stride_is_the_one_asked_for(output_stride, last):
    with torch.device("meta"):
        backbone = DilatedEfficientNetLite0(output_stride=output_stride)
        maps = backbone(torch.zeros(2, 3, 64, 96))
    assert tuple(backbone.channels) == tuple(each.shape[1] for each in maps) == (24, 112, 320)
    assert maps.low.shape[-2:] == (16, 24)
    assert maps.last.shape[-2:] == last


@pytest.mark.parametrize(
    ("output_stride", "dilations"),
    [(8, [1] * 6 + [2] * 6 + [4] * 4), (16, [1] * 12 + [2] * 4), (32, [1] * 16)],
)
def test_blocks_after_a_step_left_out_are_dilated(output_stride, dilations):
    with torch.device("meta"):
        blocks = DilatedEfficientNetLite0(output_stride=output_stride).blocks
    assert [block.depthwise.conv.dilation[0] for block in blocks] == dilations


def test_it_computes_what_the_strided_network_computes_at_more_places():
    """TensorFlow's padding puts the places of a layer that steps on odd places: 1, 3, ...; then on 3, 7, ..."""
    strided, dilated_16, dilated_8 = (
        DilatedEfficientNetLite0(PACKAGE, output_stride=stride).double().eval() for stride in (32, 16, 8)
    )
    images = torch.rand(1, 3, 64, 128, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        expected, maps_16, maps_8 = strided(images), dilated_16(images), dilated_8(images)
    assert_close(maps_16.middle, expected.middle)
    assert_close(maps_16.last[..., 1::2, 1::2], expected.last)
    assert_close(maps_8.low, expected.low)
    assert_close(maps_8.middle[..., 1::2, 1::2], expected.middle)
    assert_close(maps_8.last[..., 3::4, 3::4], expected.last)


@pytest.mark.parametrize("output_stride", [4, 64])
def test_other_strides_are_refused(output_stride):
    with pytest.raises(ValueError, match=f"output_stride must be 8, 16 or 32, got {output_stride}"):
        DilatedEfficientNetLite0(output_stride=output_stride)
