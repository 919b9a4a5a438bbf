"""The feature pyramid: maps of several strides with the same number of channels, each joined with the coarser ones.

Lin, Dollár, Girshick, He, Hariharan, Belongie: Feature Pyramid Networks for Object Detection. CVPR 2017.
"""

from collections.abc import Sequence
from functools import partial
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.ops import FeaturePyramidNetwork  # type: ignore[import-untyped]

# Where the levels above the last map come from; see `FeaturePyramid`.
ExtraLevels = Literal["c5", "lateral", "p5", "pool"]
_NUM_EXTRA = {"c5": 2, "lateral": 2, "p5": 2, "pool": 1, None: 0}


class FeaturePyramid(FeaturePyramidNetwork):  # type: ignore[misc]
    """Maps of a backbone to levels of the pyramid, finest first. Weights have torchvision's names.

    | extra | levels above the last | of |
    |---|---|---|
    | `"c5"` | two stride-2 convolutions on the backbone's last map | RetinaNet |
    | `"lateral"` | the same on that map reduced to `num_channels` | EFL's improved baseline, as published |
    | `"p5"` | the same on the last level | FCOS, ATSS, torchvision's RetinaNet |
    | `"pool"` | one, every second pixel of the last level | Faster and Mask R-CNN |
    | `None` | none | |

    Args:
        in_channels: numbers of channels of the maps, finest first.
        num_channels: number of channels of every level.
        extra: see above.
        extra_relu: a ReLU between the two convolutions, as in RetinaNet's paper, FCOS and torchvision; mmdetection's
            RetinaNet and ATSS and the improved baseline have none.
        norm_groups: groups of a group norm after all convolutions but the two extra ones; None is no norm.
        batch_norm: a batch norm there instead, as in torchvision's R-CNNs of version 2.
    """

    def __init__(
        self,
        in_channels: Sequence[int],
        num_channels: int,
        *,
        extra: ExtraLevels | None,
        extra_relu: bool = True,
        norm_groups: int | None = None,
        batch_norm: bool = False,
    ) -> None:
        if extra not in _NUM_EXTRA:
            raise ValueError(f"extra must be one of {', '.join(map(repr, _NUM_EXTRA))}, got {extra!r}")
        if batch_norm and norm_groups is not None:
            raise ValueError("a pyramid has group norms or batch norms, not both")
        groups = None if norm_groups is None else partial(nn.GroupNorm, norm_groups)
        norm_layer = nn.BatchNorm2d if batch_norm else groups
        super().__init__(list(in_channels), num_channels, norm_layer=norm_layer)
        self.extra = extra
        if _NUM_EXTRA[extra] == 2:
            self.extra_blocks = _ExtraConvs(
                in_channels[-1] if extra == "c5" else num_channels, num_channels, extra_relu
            )

    def forward(self, maps: Sequence[Tensor]) -> list[Tensor]:
        """Levels (B, num_channels, H_l, W_l) of maps (B, in_channels, H_l, W_l)."""
        laterals = [block(each) for block, each in zip(self.inner_blocks, maps, strict=True)]
        for index in reversed(range(len(laterals) - 1)):
            # By size and not by a factor, because the size of the coarser map is rounded up.
            above = F.interpolate(laterals[index + 1], size=laterals[index].shape[-2:], mode="nearest")
            laterals[index] = laterals[index] + above
        levels = [block(lateral) for block, lateral in zip(self.layer_blocks, laterals, strict=True)]
        if self.extra == "pool":
            return [*levels, levels[-1][..., ::2, ::2]]
        if self.extra is None:
            return levels
        source = {"c5": maps[-1], "lateral": laterals[-1], "p5": levels[-1]}[self.extra]
        return [*levels, *self.extra_blocks(source)]

    def strides(self, first: int) -> tuple[int, ...]:
        """Strides of the levels, for maps from the stride `first` on, each twice the one before."""
        num_levels = len(self.inner_blocks) + _NUM_EXTRA[self.extra]
        return tuple(first * 2**level for level in range(num_levels))


class _ExtraConvs(nn.Module):
    """Two more levels, by stride-2 convolutions; names and initialisation of torchvision's `LastLevelP6P7`."""

    def __init__(self, in_channels: int, num_channels: int, relu: bool) -> None:
        super().__init__()
        self.p6 = nn.Conv2d(in_channels, num_channels, 3, stride=2, padding=1)
        self.p7 = nn.Conv2d(num_channels, num_channels, 3, stride=2, padding=1)
        for conv in (self.p6, self.p7):
            nn.init.kaiming_uniform_(conv.weight, a=1)
            nn.init.zeros_(conv.bias)  # type: ignore[arg-type]
        self.relu = relu

    def forward(self, maps: Tensor) -> list[Tensor]:
        p6 = self.p6(maps)
        return [p6, self.p7(F.relu(p6) if self.relu else p6)]
