"""What a dense head predicts, in the order of its anchors: levels one after the other, each in (y, x, anchor) order."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from equigrad.models.detection.one_stage.head import LevelOutput


class BoxCoder(Protocol):
    """From boxes to what a head predicts and back; see `equigrad.models.detection.box_coders`."""

    def encode(self, references: Tensor, boxes: Tensor) -> Tensor:
        """Values (..., 4) of boxes seen from anchors."""
        ...

    def decode(self, references: Tensor, values: Tensor) -> Tensor:
        """Boxes (..., 4) of values predicted at anchors."""
        ...


class ImagePredictions(NamedTuple):
    """The predictions for one image, without gradient: what an assigner may ask for."""

    anchors: list[Tensor]  # (P_l, 4) of each level, P = sum of P_l
    logits: list[Tensor]  # (A * K, H, W) of each level
    boxes: Tensor  # (P, 4)  decoded
    quality: Tensor | None  # (P,)  logits

    def logits_at(self, indices: Tensor) -> Tensor:
        """Logits (n, K) of anchors (n,), given by their indices among the P, in ascending order."""
        ends = list(accumulate(len(anchors) for anchors in self.anchors))
        num_before = torch.stack([(indices < end).sum() for end in ends]).tolist()
        bounds = pairwise([0, *num_before])
        parts = []
        for logits, anchors, end, (start, stop) in zip(self.logits, self.anchors, ends, bounds, strict=True):
            here = indices[start:stop] - (end - len(anchors))
            parts.append(anchor_logits(logits, here, len(anchors) // logits[0].numel()))
        return torch.cat(parts)


def anchor_logits(logits: Tensor, indices: Tensor, num_anchors: int) -> Tensor:
    """Logits (n, K) of the anchors (n,) of one level and image, whose logits are (A * K, H, W)."""
    by_anchor = logits.reshape(num_anchors, -1, logits[0].numel())  # (A, K, H * W)
    return by_anchor[indices % num_anchors, :, indices // num_anchors]


def image_predictions(outputs: Sequence[LevelOutput], anchors: list[Tensor], coder: BoxCoder) -> list[ImagePredictions]:
    """The predictions of a batch, image by image."""
    boxes = coder.decode(torch.cat(anchors), join([output.boxes for output in outputs], 4).detach())
    quality = join_quality(outputs)
    return [
        ImagePredictions(
            anchors,
            [output.logits[image].detach() for output in outputs],
            boxes[image],
            None if quality is None else quality[image].detach(),
        )
        for image in range(len(boxes))
    ]


def join(maps: Sequence[Tensor], size: int) -> Tensor:
    """Values (B, P, size) of maps (B, A * size, H, W)."""
    # By shape[0]: len() would make a constant of it in an exported model.
    by_anchor = [level.reshape(level.shape[0], -1, size, *level.shape[2:]) for level in maps]  # (B, A, size, H, W)
    return torch.cat([level.permute(0, 3, 4, 1, 2).reshape(level.shape[0], -1, size) for level in by_anchor], 1)


def join_quality(outputs: Sequence[LevelOutput]) -> Tensor | None:
    """Quality (B, P) of all anchors, if the head has it."""
    maps = [output.quality for output in outputs if output.quality is not None]
    return join(maps, 1).squeeze(-1) if maps else None


def split(values: Tensor, outputs: Sequence[LevelOutput], num_anchors: int) -> list[Tensor]:
    """Values (B, P) of the anchors as maps (B * A, H, W) of each level: the layout of `class_logits`."""
    sizes = [output.logits.shape[-2:] for output in outputs]
    parts = torch.split(values, [num_anchors * size.numel() for size in sizes], 1)
    return [
        part.reshape(len(values), *size, num_anchors).permute(0, 3, 1, 2).reshape(-1, *size)
        for part, size in zip(parts, sizes, strict=True)
    ]


def class_logits(output: LevelOutput, num_anchors: int) -> Tensor:
    """Logits (B * A, K, H, W), a view of the head's (B, A * K, H, W) unless its channels are innermost in memory."""
    num_images, channels, height, width = output.logits.shape
    return output.logits.reshape(num_images * num_anchors, channels // num_anchors, height, width)
