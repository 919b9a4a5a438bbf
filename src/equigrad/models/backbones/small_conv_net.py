"""A small convolutional network for the demo and the tests: minutes to train on a CPU."""

from torch import Tensor, nn

from equigrad.models.backbones.normalization import HALF, Normalization


class SmallConvNet(nn.Module):
    """Images of 24-96 px to D features: four stages of one convolution, each half as large and twice as wide.

    On a CPU it is about twice as fast with channels last.

    In a `Classifier` its paths are `backbone.stages.0` … `backbone.stages.3`.

    Args:
        width: channels of the first stage; D is 8 times as many.
    """

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        if width < 1:
            raise ValueError(f"width must be at least 1, got {width}")
        self.normalization = Normalization(HALF)
        widths = [width * 2**stage for stage in range(4)]
        self.stages = nn.Sequential(*map(_stage, [3, *widths], widths))
        self.num_features = widths[-1]

    def forward(self, images: Tensor) -> Tensor:
        """Features (N, D) of images (N, 3, H, W)."""
        maps: Tensor = self.stages(self.normalization(images))
        return maps.mean((2, 3))


def _stage(in_channels: int, out_channels: int) -> nn.Sequential:
    conv = nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    # Pooling first leaves the normalisation a quarter of the work; ReLU and maximum commute.
    return nn.Sequential(conv, nn.MaxPool2d(2, ceil_mode=True), nn.BatchNorm2d(out_channels), nn.ReLU())
