"""Masks of RoIs: the branch that predicts them, its training targets, and pasting masks into the image.

A RoI needs the mask of one category only, so only that one of the 1203 masks of a head is computed.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.models.detection.mask_rcnn import MaskRCNNHeads  # type: ignore[import-untyped]
from torchvision.ops import roi_align  # type: ignore[import-untyped]

from equigrad.models.detection.boxes import at_least_float32
from equigrad.models.detection.two_stage.roi_pooling import roi_pool
from equigrad.models.detection.two_stage.roi_sampling import RoISample

PIXELS_AT_ONCE = 2**23
"""Mask pixels that are converted to floats at a time; an image of LVIS has hundreds of objects."""

POOL_SIZE = 14  # of the features of a RoI; its mask is twice as large

ImageSizes = list[tuple[int, int]]
"""(Height, width) of each image."""


class CompactMasks(Protocol):
    """Masks of the objects of an image that are made dense only when a RoI needs them."""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the image."""
        ...

    def dense(self, objects: Sequence[int]) -> Tensor:
        """The masks (n, H, W) of the objects with these indices."""
        ...


Masks = Tensor | CompactMasks
"""Masks of the G objects of an image, dense (G, H, W) or not."""


class MaskPredictor(nn.Module):
    """Logits of one mask a RoI, at twice the resolution of its features.

    Args:
        in_channels: number of channels of the features.
        num_channels: between the two layers.
        num_masks: C, or 1 if all categories share a mask.
    """

    def __init__(self, in_channels: int, num_channels: int, num_masks: int) -> None:
        super().__init__()
        self.conv5_mask = nn.ConvTranspose2d(in_channels, num_channels, 2, 2)
        self.mask_fcn_logits = nn.Conv2d(num_channels, num_masks, 1)
        self.num_masks = num_masks
        for layer in (self.conv5_mask, self.mask_fcn_logits):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """Logits (N, 2h, 2w) of the masks of categories (N,), of features (N, D, h, w)."""
        maps = F.relu(self.conv5_mask(features), inplace=True)
        layer = self.mask_fcn_logits
        column = labels if self.num_masks > 1 else torch.zeros_like(labels)
        # An embedding, because the gradient of plain indexing is slow.
        filters = F.embedding(column, layer.weight.flatten(1))[:, None]  # (N, 1, D)
        bias = layer.bias[column]  # type: ignore[index]
        logits: Tensor = (filters @ maps.flatten(2)).view(maps.shape[0], *maps.shape[2:])
        return logits + bias[:, None, None]


class MaskBranch(nn.Module):
    """Pooling, four convolutions and the predictor.

    Args:
        in_channels: number of channels of the pyramid.
        num_masks: C, or 1 if all categories share a mask.
        level_names: names of the levels RoIs are pooled from.
        num_channels: number of channels of the branch.
        sampling_ratio: points a bin is averaged over, on each of its sides.
        aligned: see `roi_pool`; also for the training targets.
        batch_norm: after each of the four convolutions.
    """

    def __init__(
        self,
        in_channels: int,
        num_masks: int,
        level_names: Sequence[str],
        *,
        num_channels: int = 256,
        sampling_ratio: int = 2,
        aligned: bool = False,
        batch_norm: bool = False,
    ) -> None:
        super().__init__()
        self.aligned = aligned
        self.roi_pool = roi_pool(level_names, POOL_SIZE, sampling_ratio, aligned=aligned)
        norm_layer = nn.BatchNorm2d if batch_norm else None
        self.head = MaskRCNNHeads(in_channels, (num_channels,) * 4, dilation=1, norm_layer=norm_layer)
        self.predictor = MaskPredictor(num_channels, num_channels, num_masks)

    def forward(
        self, features: Mapping[str, Tensor], rois: list[Tensor], labels: Sequence[Tensor], image_sizes: ImageSizes
    ) -> Tensor:
        """Logits (N, M, M) of the masks of RoIs (n, 4), as the categories (n,), of all images together."""
        pooled = self.roi_pool(features, rois, image_sizes)
        logits: Tensor = self.predictor(self.head(pooled), torch.cat(list(labels)))
        return logits

    def loss(
        self,
        features: Mapping[str, Tensor],
        positives: Sequence[RoISample],
        masks: Sequence[Masks],
        image_sizes: ImageSizes,
    ) -> Tensor:
        """Mean binary cross-entropy over the pixels of the positives; masks of the objects of each image."""
        rois, labels, matched = (list(parts) for parts in zip(*positives, strict=True))
        logits = at_least_float32(self(features, rois, labels, image_sizes))
        wanted = torch.cat(
            [
                mask_targets(*parts, logits.shape[-1], aligned=self.aligned)
                for parts in zip(masks, rois, matched, strict=True)
            ]
        )
        loss = F.binary_cross_entropy_with_logits(logits, wanted.to(logits.dtype), reduction="sum")
        return loss / float(max(1, logits.numel()))

    @torch.no_grad()
    def masks(
        self, features: Mapping[str, Tensor], rois: list[Tensor], labels: Sequence[Tensor], image_sizes: ImageSizes
    ) -> list[Tensor]:
        """Probabilities (n, M, M) inside the boxes (n, 4) of each image."""
        probabilities = at_least_float32(self(features, rois, labels, image_sizes)).sigmoid()
        return list(torch.split(probabilities, [len(boxes) for boxes in rois]))


@torch.no_grad()
def mask_targets(masks: Masks, rois: Tensor, matched: Tensor, size: int, *, aligned: bool = False) -> Tensor:
    """The part of its object's mask inside each RoI: (P, size, size) in [0, 1].

    Args:
        masks: masks of the G objects.
        rois: (P, 4).
        matched: index of the object of each RoI, (P,).
        size: size of the result.
        aligned: see `roi_pool`.
    """
    targets = rois.new_zeros((len(rois), size, size))
    # Masks of objects without a RoI are not made dense.
    objects, positions, counts = torch.unique(matched, return_inverse=True, return_counts=True)
    wanted = torch.stack([objects, counts]).T.tolist()
    by_object = positions.argsort(stable=True)
    done = 0
    for first, block in _blocks(masks, [index for index, _ in wanted]):
        num_rois = sum(count for _, count in wanted[first : first + len(block)])
        rows = by_object[done : done + num_rois]
        indexed_rois = torch.cat([(positions[rows] - first).to(rois)[:, None], rois[rows]], 1)
        targets[rows] = roi_align(block[:, None].to(rois), indexed_rois, size, aligned=aligned)[:, 0]
        done += num_rois
    return targets


def _blocks(masks: Masks, objects: Sequence[int]) -> Iterator[tuple[int, Tensor]]:
    """Dense masks (n, H, W) of the objects, some at a time, with the position of the first."""
    height, width = masks.shape[1:] if isinstance(masks, Tensor) else masks.size
    step = max(1, PIXELS_AT_ONCE // max(1, height * width))
    for first in range(0, len(objects), step):
        block = objects[first : first + step]
        yield first, torch.stack([masks[index] for index in block]) if isinstance(masks, Tensor) else masks.dense(block)


@torch.no_grad()
def paste_masks(masks: Tensor, boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Masks (K, H, W) of uint8, of an image of `size` (height, width): 1 where the probability is at least 0.5.

    Probabilities are interpolated bilinearly and are 0 outside the box. One box at a time is held besides the result.

    Args:
        masks: probabilities (K, M, M) inside the boxes.
        boxes: (K, 4), in pixels of the image.
        size: size of the image; the original size for evaluation.
    """
    pasted = torch.zeros((len(masks), *size), dtype=torch.uint8, device=masks.device)
    for canvas, mask, (x1, y1, x2, y2) in zip(pasted, masks.float(), boxes.tolist(), strict=True):
        rows, down = _window(y1, y2, size[0], mask)
        columns, across = _window(x1, x2, size[1], mask)
        canvas[rows, columns] = down @ mask @ across.T >= 0.5
    return pasted


def _window(start: float, end: float, length: int, mask: Tensor) -> tuple[slice, Tensor]:
    """Pixels of an axis that a box can reach, and the share of each row of the mask in them (pixels, M)."""
    cell = max(end - start, 1e-3) / len(mask)
    first = min(length, max(0, int(start - cell / 2)))
    last = max(first, min(length, int(end + cell / 2) + 1))
    centres = torch.arange(first, last, device=mask.device, dtype=torch.float64) + 0.5
    positions = (centres - start) / cell - 0.5
    shares = 1 - (positions[:, None] - torch.arange(len(mask), device=mask.device)).abs()
    return slice(first, last), shares.clamp(min=0).to(mask.dtype)
