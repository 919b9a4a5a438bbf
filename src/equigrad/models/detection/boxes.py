"""Boxes: corners (x1, y1, x2, y2), any floating point, in a tensor (..., 4).

`legacy_pixels` is the convention of older code in which a box ends *on* pixel x2 and is x2 - x1 + 1 wide. The released
code of the paper's improved baseline uses it for anchors and objects alike, which gives the IoU of the plain
convention: a box [x1, x2 - 1] there is [x1, x2] here. The flag is for boxes that already come that way.
"""

import torch
from torch import Tensor

EPSILON = 1e-7  # as in torchvision: keeps 0 / 0 of degenerate boxes at 0


def at_least_float32(values: Tensor) -> Tensor:
    """The values in float32 or float64: half precision would round coordinates of a large image to 2 pixels."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def centres(boxes: Tensor) -> Tensor:
    """Centres (..., 2) of boxes (..., 4)."""
    return (boxes[..., :2] + boxes[..., 2:]) / 2


def sides(boxes: Tensor, *, legacy_pixels: bool = False) -> Tensor:
    """Width and height (..., 2) of boxes (..., 4); 0 where x2 < x1 or y2 < y1."""
    return (boxes[..., 2:] - boxes[..., :2] + float(legacy_pixels)).clamp(min=0)


def areas(boxes: Tensor, *, legacy_pixels: bool = False) -> Tensor:
    """Areas (...) of boxes (..., 4)."""
    return sides(boxes, legacy_pixels=legacy_pixels).prod(-1)


def clip(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Boxes (..., 4) cut at the border of an image of `size` (height, width)."""
    height, width = size
    return boxes.clamp(min=0).minimum(boxes.new_tensor([width, height, width, height]))


def margins(points: Tensor, boxes: Tensor) -> Tensor:
    """How far points (..., 2) lie inside boxes (..., 4): distance to the nearest side (...), negative outside."""
    return torch.minimum(points - boxes[..., :2], boxes[..., 2:] - points).amin(-1)


@torch.no_grad()
def pairwise_iou(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union (N, M) of all pairs of boxes (N, 4) and (M, 4); without gradient.

    Works in place, one coordinate after the other: three matrices (N, M) at most.
    """
    a, b = at_least_float32(a), at_least_float32(b)
    overlap = _pairwise_overlap(a[:, 0::2], b[:, 0::2])
    overlap *= _pairwise_overlap(a[:, 1::2], b[:, 1::2])
    union = areas(a)[:, None] + areas(b)
    union -= overlap
    return overlap.div_(union.clamp_(min=EPSILON))


def _pairwise_overlap(a: Tensor, b: Tensor) -> Tensor:
    """Common length (N, M) of intervals (N, 2) and (M, 2)."""
    common = torch.minimum(a[:, 1:], b[:, 1])
    common -= torch.maximum(a[:, :1], b[:, 0])
    return common.clamp_(min=0)


def paired_iou(a: Tensor, b: Tensor, *, legacy_pixels: bool = False) -> Tensor:
    """Intersection over union (...) of boxes (..., 4) with their partners (..., 4)."""
    overlap, union = _overlap_and_union(at_least_float32(a), at_least_float32(b), legacy_pixels)
    return overlap / union.clamp(min=EPSILON)


def paired_generalized_iou(a: Tensor, b: Tensor, *, legacy_pixels: bool = False) -> Tensor:
    """Generalized IoU (...) in [-1, 1] of boxes (..., 4) with their partners (..., 4); differentiable.

    IoU minus the share of the smallest enclosing box that neither covers, so that boxes without overlap still get a
    gradient. Value and gradient are finite for boxes without area and for predictions with x2 < x1 or y2 < y1.
    """
    a, b = at_least_float32(a), at_least_float32(b)
    overlap, union = _overlap_and_union(a, b, legacy_pixels)
    corners = torch.stack([a[..., :2], a[..., 2:], b[..., :2], b[..., 2:]])  # (4, ..., 2)
    enclosing = (corners.amax(0) - corners.amin(0) + float(legacy_pixels)).prod(-1)
    return overlap / union.clamp(min=EPSILON) - (enclosing - union) / enclosing.clamp(min=EPSILON)


def _overlap_and_union(a: Tensor, b: Tensor, legacy_pixels: bool) -> tuple[Tensor, Tensor]:
    """Areas (...) of what a box and its partner have in common, and together."""
    common = torch.cat([torch.maximum(a, b)[..., :2], torch.minimum(a, b)[..., 2:]], -1)
    overlap = areas(common, legacy_pixels=legacy_pixels)
    return overlap, areas(a, legacy_pixels=legacy_pixels) + areas(b, legacy_pixels=legacy_pixels) - overlap
