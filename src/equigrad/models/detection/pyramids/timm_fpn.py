"""Any network of timm (PyTorch Image Models) with a feature pyramid. Needs the `timm` extra.

Paths below the name the detector gives the pyramid: `body.network` and `fpn`.
"""

from typing import Self

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from equigrad.models.backbones.timm_networks import TimmMaps, Weights
from equigrad.models.detection.pyramids.feature_pyramid import ExtraLevels, FeaturePyramid


class TimmFPN(nn.Module):
    """Images to levels P3-P7, or P2-P6 with `extra="pool"`. A level's size is rounded up.

    Batch norms keep the statistics of the weights, because batches of detection are small; from scratch they are
    trained.

    Args:
        name: name of the network in timm; it needs maps of the strides 8, 16 and 32, and 4 for "pool".
        weights: None, or a file with timm's names of weights.
        num_channels: number of channels of every level, a multiple of 8.
        extra: where the levels above P5 come from; see `FeaturePyramid`.
    """

    def __init__(
        self,
        name: str,
        weights: Weights = None,
        *,
        num_channels: int = 256,
        extra: ExtraLevels | None = "p5",
    ) -> None:
        super().__init__()
        self.body = TimmMaps(name, weights)
        strides = (4, 8, 16, 32) if extra == "pool" else (8, 16, 32)
        self.taken = [self.body.level(stride) for stride in strides]
        # Maps of these networks differ in scale, and so would the levels that share one head.
        self.fpn = FeaturePyramid(
            [self.body.channels[index] for index in self.taken], num_channels, extra=extra, norm_groups=8
        )
        self.num_channels, self.strides = num_channels, self.fpn.strides(strides[0])
        self.keeps_statistics = weights is not None
        self.train()

    def keep_statistics(self) -> None:
        """Freeze the batch statistics from now on, after weights were loaded into a pyramid that had none."""
        self.keeps_statistics = True
        self.train(self.training)

    def forward(self, images: Tensor) -> list[Tensor]:
        """Levels (B, num_channels, ceil(H / stride), ceil(W / stride)) of images (B, 3, H, W)."""
        maps = self.body(images)
        levels: list[Tensor] = self.fpn([maps[index] for index in self.taken])
        return levels

    def train(self, mode: bool = True) -> Self:
        """Set training mode; parts that are not trained stay in evaluation mode."""
        super().train(mode)
        if self.keeps_statistics:
            for module in self.body.modules():
                if isinstance(module, _BatchNorm):
                    module.eval()
        return self


def timm_pyramid(
    name: str, weights: Weights = None, *, num_channels: int = 256, extra: ExtraLevels | None = "p5"
) -> TimmFPN:
    """A network of timm with a pyramid, for detectors; see `TimmFPN`."""
    return TimmFPN(name, weights, num_channels=num_channels, extra=extra)
