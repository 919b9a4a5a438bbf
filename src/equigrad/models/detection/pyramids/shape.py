"""What a detector must know of its pyramid."""

from typing import NamedTuple

from torch import nn


class PyramidShape(NamedTuple):
    """Channels of the maps and strides of the levels."""

    num_channels: int
    strides: tuple[int, ...]


def pyramid_shape(pyramid: nn.Module) -> PyramidShape:
    """The shape of a pyramid, which must have the attributes `num_channels` and `strides`."""
    num_channels, strides = getattr(pyramid, "num_channels", None), getattr(pyramid, "strides", None)
    if not isinstance(num_channels, int) or not isinstance(strides, tuple) or not strides:
        raise ValueError(
            f"pyramid must have an integer num_channels and a tuple of strides, "
            f"got {type(pyramid).__name__} with {num_channels!r} and {strides!r}"
        )
    return PyramidShape(num_channels, strides)


def imagenet_channels(pyramid: nn.Module) -> int:
    """Channels of the map of ImageNet features that a pyramid gives after its levels; 0 is none."""
    return int(getattr(pyramid, "imagenet_channels", 0))
