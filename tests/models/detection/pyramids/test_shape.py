import pytest
from torch import nn

from equigrad.models.detection.pyramids.shape import pyramid_shape
from equigrad.models.detection.pyramids.small_fpn import SmallFPN


class Pyramid(nn.Module):
    def __init__(self, **attributes):
        super().__init__()
        for name, value in attributes.items():
            setattr(self, name, value)


def test_a_pyramid_tells_its_channels_and_strides():
    assert pyramid_shape(SmallFPN(4, num_channels=8, strides=(8, 16))) == (8, (8, 16))


@pytest.mark.parametrize(
    ("attributes", "found"),
    [
        ({}, "None and None"),
        ({"num_channels": 8}, "8 and None"),
        ({"num_channels": 8.0, "strides": (8,)}, r"8\.0 and \(8,\)"),
        ({"num_channels": 8, "strides": [8]}, r"8 and \[8\]"),
        ({"num_channels": 8, "strides": ()}, r"8 and \(\)"),
    ],
)
def test_what_is_no_pyramid_is_refused_by_name(attributes, found):
    with pytest.raises(ValueError, match=f"a tuple of strides, got Pyramid with {found}"):
        pyramid_shape(Pyramid(**attributes))
