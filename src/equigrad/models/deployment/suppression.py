"""Post-processing of a detector for a whole batch: non-maximum suppression, then the best rows of each image.

Rows that do not count have the score NOT_A_BOX, so that every image has as many rows as the others.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torchvision.ops import nms  # type: ignore[import-untyped]

NOT_A_BOX = -1.0

Suppress = Callable[[Tensor, Tensor, Tensor, int, float], Tensor]
"""Like `kept_boxes`."""


class Boxes(NamedTuple):
    """Boxes of N images, n of each."""

    boxes: Tensor  # (N, n, 4)
    scores: Tensor  # (N, n)
    labels: Tensor  # (N, n)


def kept_boxes(boxes: Tensor, scores: Tensor, labels: Tensor, num_labels: int, threshold: float) -> Tensor:
    """Whether a box (N, n) survives suppression among those of its image and label.

    Args:
        boxes: (N, n, 4), x and y >= 0.
        scores: (N, n); rows with NOT_A_BOX neither survive nor suppress.
        labels: (N, n), from 0.
        num_labels: more than any label.
        threshold: IoU above which the lower of two boxes is dropped.
    """
    images = torch.arange(scores.shape[0], device=scores.device)[:, None]
    # Boxes of other images and labels are shifted apart, so that one call of NMS serves all; float64 keeps it exact.
    apart = boxes.double()
    apart = apart + ((images * num_labels + labels) * (apart.amax().ceil() + 1))[..., None]
    rows = (scores.flatten() > NOT_A_BOX).nonzero()[:, 0]
    # Two boxes after the last, apart from all others: `torch.export` takes it that at least two survive.
    extra = apart.amax() + torch.tensor([[1.0, 1, 2, 2], [3, 3, 4, 4]], dtype=apart.dtype, device=apart.device)
    candidates = torch.cat([apart.flatten(0, 1)[rows], extra])
    order = torch.cat([scores.flatten().double()[rows], extra.new_full((2,), NOT_A_BOX)])
    places = torch.cat([rows, scores.numel() + torch.arange(2, device=rows.device)])
    kept = places[nms(candidates, order, threshold)]
    # As numbers, because TorchScript cannot fill a boolean tensor.
    counts = scores.new_zeros(scores.numel() + 2).index_fill(0, kept, 1)
    return counts[:-2].reshape(scores.shape) > 0


def best(found: Boxes, count: int) -> Boxes:
    """The best rows of each image, best first, equal ones in their order: at most `count`, or as many as there are."""
    ranked = found.scores.sort(dim=1, descending=True, stable=True)  # `topk` would mix equal scores
    scores, rows = ranked.values[:, :count], ranked.indices[:, :count]
    boxes = found.boxes.gather(1, rows[..., None].expand(-1, -1, 4))
    return Boxes(boxes, scores, found.labels.gather(1, rows))


def blank(found: Boxes) -> Boxes:
    """The same with label -1 and zeros in rows that do not count."""
    counts = found.scores > NOT_A_BOX
    return Boxes(
        found.boxes.where(counts[..., None], 0.0), found.scores.where(counts, 0.0), found.labels.where(counts, -1)
    )


def clip(boxes: Tensor, image_sizes: Tensor) -> Tensor:
    """Boxes (N, n, 4) cut at the border of images of sizes (N, 2), height and width."""
    limits = image_sizes.flip(1).repeat(1, 2)[:, None].to(boxes.dtype)
    return boxes.clamp(min=0).minimum(limits)
