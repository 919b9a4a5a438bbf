"""A batch norm with fixed statistics, scale and shift that works in place."""

from torch import Tensor
from torchvision.ops import FrozenBatchNorm2d  # type: ignore[import-untyped]


class FrozenNorm(FrozenBatchNorm2d):  # type: ignore[misc]
    """torchvision's `FrozenBatchNorm2d`, faster, for use directly after a convolution.

    A convolution does not need its output for backward, so the norm may overwrite it. In mixed precision the result
    keeps the precision of the maps.
    """

    def forward(self, maps: Tensor) -> Tensor:
        """The same maps (N, C, H, W), normalised."""
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        shift = self.bias - self.running_mean * scale
        return maps.mul_(scale.reshape(-1, 1, 1)).add_(shift.reshape(-1, 1, 1))
