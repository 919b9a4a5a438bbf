"""Centre sampling of FCOS: an object is assigned to the points near its centre, on the level that fits its size."""

from collections.abc import Sequence

import torch
from torch import Tensor

from equigrad.models.detection.assignment.max_iou import Assignment, all_background, assign, in_blocks
from equigrad.models.detection.boxes import areas, centres, sides

SIZE_RANGES = ((0.0, 64.0), (64.0, 128.0), (128.0, 256.0), (256.0, 512.0), (512.0, float("inf")))
"""Published for P3 to P7: the largest of the four distances, in pixels, that a level regresses; bounds included."""


class CentreAssigner:
    """A point is assigned to the smallest object that it may regress (FCOS, with centre sampling).

    It may if it lies inside the object, inside the square of `radius` strides around the object's centre, and if the
    largest distance to a side of the object is in the range of its level. Everything else is background.

    Args:
        radius: half the side of the square, in strides.
        size_ranges: for each level, the smallest and the largest distance it regresses.
    """

    def __init__(self, radius: float = 1.5, size_ranges: Sequence[tuple[float, float]] = SIZE_RANGES) -> None:
        if radius <= 0:
            raise ValueError(f"radius must be above 0, got {radius}")
        self.radius = radius
        self.size_ranges = tuple(size_ranges)

    @torch.no_grad()
    def __call__(self, cells_per_level: Sequence[Tensor], boxes: Tensor, labels: Tensor) -> Assignment:
        """Assignment of the cells (n_l, 4) of an image, see `AnchorGrid`, to its objects, (G, 4) with labels (G,)."""
        if len(cells_per_level) != len(self.size_ranges):
            raise ValueError(f"expected cells of {len(self.size_ranges)} levels, got {len(cells_per_level)}")
        if not len(boxes):
            return all_background(sum(map(len, cells_per_level)), labels)
        matched = [
            self._match(cells, boxes, *limits)
            for level, limits in zip(cells_per_level, self.size_ranges, strict=True)
            for cells in in_blocks(level, len(boxes))
        ]
        return assign(torch.cat(matched), labels)

    def _match(self, cells: Tensor, boxes: Tensor, smallest: float, largest: float) -> Tensor:
        """Matched object (n,) of cells (n, 4) of a level, -1 without one."""
        points, strides = centres(cells), sides(cells)[:, 0]
        nearest, farthest = side_distances(points, boxes)
        allowed = nearest > 0
        allowed &= (farthest >= smallest) & (farthest <= largest)
        allowed &= centre_distances(points, boxes) < self.radius * strides[:, None]
        size = areas(boxes).expand_as(allowed).where(allowed, torch.inf)
        return size.argmin(1).masked_fill(~allowed.any(1), -1)


def side_distances(points: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
    """Distances (n, G) of points (n, 2) to the nearest and the farthest side of boxes (G, 4); negative outside.

    One side after the other: a tensor (n, G, 4) would be four times as large.
    """
    from_sides = [points[:, :1] - boxes[:, 0], points[:, 1:] - boxes[:, 1]]
    to_sides = [boxes[:, 2] - points[:, :1], boxes[:, 3] - points[:, 1:]]
    nearest = farthest = from_sides[0]
    for distance in (from_sides[1], *to_sides):
        nearest, farthest = nearest.minimum(distance), farthest.maximum(distance)
    return nearest, farthest


def centre_distances(points: Tensor, boxes: Tensor) -> Tensor:
    """Distances (n, G), the larger of |dx| and |dy|, of points (n, 2) to the centres of boxes (G, 4)."""
    middle = centres(boxes)
    return (points[:, :1] - middle[:, 0]).abs_().maximum((points[:, 1:] - middle[:, 1]).abs_())
