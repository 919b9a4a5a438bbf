"""The output of an encoder for dense prediction: three maps of an image."""

from typing import NamedTuple

from torch import Tensor


class EncoderMaps(NamedTuple):
    """Maps of one batch of images, (N, channels, H / stride, W / stride) each."""

    low: Tensor  # stride 4: edges, for the decoder of DeepLabV3+
    middle: Tensor  # the last stage but one, for the auxiliary head
    last: Tensor  # output stride


class EncoderChannels(NamedTuple):
    """Channels of the same maps."""

    low: int
    middle: int
    last: int
