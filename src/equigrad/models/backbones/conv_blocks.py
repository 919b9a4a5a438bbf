"""Convolutions with batch norm and ReLU, of which encoders and heads of segmenters are made."""

from torch import nn


def conv_norm_relu(
    in_channels: int, out_channels: int, kernel_size: int, *, dilation: int = 1, groups: int = 1
) -> nn.Sequential:
    """A convolution that keeps the size, batch norm and ReLU."""
    padding = dilation * (kernel_size // 2)
    conv = nn.Conv2d(
        in_channels, out_channels, kernel_size, padding=padding, dilation=dilation, groups=groups, bias=False
    )
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return nn.Sequential(conv, nn.BatchNorm2d(out_channels), nn.ReLU(inplace=True))


def separable_conv(in_channels: int, out_channels: int, *, dilation: int = 1) -> nn.Sequential:
    """A 3x3 filter of each channel, then a 1x1 convolution of them, each with batch norm and ReLU."""
    return nn.Sequential(
        conv_norm_relu(in_channels, in_channels, 3, dilation=dilation, groups=in_channels),
        conv_norm_relu(in_channels, out_channels, 1),
    )
