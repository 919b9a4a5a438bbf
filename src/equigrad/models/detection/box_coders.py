"""Box coders: what a head predicts, relative to the anchor or cell it predicts from.

    coder.encode(references, boxes) -> values        coder.decode(references, values) -> boxes        all (..., 4)

References are boxes of `AnchorGrid`: anchors, or the cells of a grid with scale 1, whose centres are the points of
FCOS and whose width is the stride. Half precision is decoded in float32.
"""

import math

import torch
from torch import Tensor

from equigrad.models.detection.boxes import at_least_float32, centres, sides

LARGEST_GROWTH = math.log(1000 / 16)  # of a side relative to its anchor; published: an exp() of more overflows training
SMALLEST_SIDE = 1e-3  # pixels; a box without width has no logarithm


class DeltaCoder:
    """(dx / w, dy / h, log w'/w, log h'/h) from an anchor, divided by `std`.

    Args:
        std: standard deviations of the two shifts and of the two logarithms; the published one-stage detectors use 1.
        legacy_pixels: a box ends on pixel x2 (see `boxes`).
    """

    def __init__(self, std: tuple[float, float] = (1.0, 1.0), *, legacy_pixels: bool = False) -> None:
        self.std = std
        self.legacy_pixels = legacy_pixels

    def encode(self, references: Tensor, boxes: Tensor) -> Tensor:
        """Values (..., 4) of boxes (..., 4) seen from anchors (..., 4)."""
        start, size = self._start_and_size(references)
        box_start, box_size = self._start_and_size(boxes)
        shift = (box_start + box_size / 2 - start - size / 2) / size
        growth = (box_size.clamp(min=SMALLEST_SIDE) / size).log()
        return torch.cat([shift / self.std[0], growth / self.std[1]], -1)

    def decode(self, references: Tensor, values: Tensor) -> Tensor:
        """Boxes (..., 4) of values (..., 4) predicted at anchors (..., 4)."""
        shift, growth = at_least_float32(values).chunk(2, -1)
        start, size = self._start_and_size(references)
        centre = start + size / 2 + shift * self.std[0] * size
        half = size * (growth * self.std[1]).clamp(max=LARGEST_GROWTH).exp() / 2
        return torch.cat([centre - half, centre + half - float(self.legacy_pixels)], -1)

    def _start_and_size(self, boxes: Tensor) -> tuple[Tensor, Tensor]:
        return boxes[..., :2], sides(boxes, legacy_pixels=self.legacy_pixels)


class DistanceCoder:
    """Distances (left, top, right, bottom) from the centre of a cell to the sides of the box (FCOS).

    Args:
        in_strides: divide by the stride, the width of the cell ("norm on box"), so that all levels predict alike.
    """

    def __init__(self, *, in_strides: bool = True) -> None:
        self.in_strides = in_strides

    def encode(self, references: Tensor, boxes: Tensor) -> Tensor:
        """Distances (..., 4) to the sides of boxes (..., 4) from the centres of cells (..., 4); negative outside."""
        points = centres(references)
        distances = torch.cat([points - boxes[..., :2], boxes[..., 2:] - points], -1)
        return distances / self._unit(references)

    def decode(self, references: Tensor, values: Tensor) -> Tensor:
        """Boxes (..., 4) of distances (..., 4) predicted at cells (..., 4)."""
        points = centres(references)
        left_top, right_bottom = (at_least_float32(values) * self._unit(references)).chunk(2, -1)
        return torch.cat([points - left_top, points + right_bottom], -1)

    def _unit(self, references: Tensor) -> Tensor | float:
        return sides(references)[..., :1] if self.in_strides else 1.0


class CentreCoder:
    """Centre of the box from the top left corner of the cell, and log of its sides, both in strides (YOLOX)."""

    LARGEST_LOG = 10.0  # 22,000 strides: beyond any image, far below overflow

    def encode(self, references: Tensor, boxes: Tensor) -> Tensor:
        """Values (..., 4) of boxes (..., 4) seen from cells (..., 4)."""
        strides = sides(references)
        shift = (centres(boxes) - references[..., :2]) / strides
        return torch.cat([shift, (sides(boxes).clamp(min=SMALLEST_SIDE) / strides).log()], -1)

    def decode(self, references: Tensor, values: Tensor) -> Tensor:
        """Boxes (..., 4) of values (..., 4) predicted at cells (..., 4)."""
        strides = sides(references)
        shift, log_sides = at_least_float32(values).chunk(2, -1)
        centre = references[..., :2] + shift * strides
        half = log_sides.clamp(max=self.LARGEST_LOG).exp() * strides / 2
        return torch.cat([centre - half, centre + half], -1)
