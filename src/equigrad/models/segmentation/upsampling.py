"""Bilinear upsampling of some rows at a time, so that maps of K categories need not exist at full size at once.

Corners are not aligned: what comes out is what `F.interpolate(maps, size, mode="bilinear")` gives.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

MAX_ELEMENTS = 2**22
"""16 MB of float32: large enough for the overhead of a tile not to show, small against the model."""


class RowTile(NamedTuple):
    """Rows of the result, and where they come from."""

    rows: slice  # of the result
    band: slice  # of the maps, all that the rows need
    above: Tensor  # (R,) row of the band above each row of the result
    below: Tensor  # (R,) the one below
    weight: Tensor  # (R, 1) float64, of the one below


def row_tiles(maps: Tensor, size: tuple[int, int], max_elements: int = MAX_ELEMENTS) -> Iterator[RowTile]:
    """Cut the result of size (H, W) into tiles of at most so many elements, but at least one row of all maps.

    Args:
        maps: (N, K, h, w).
        size: (H, W).
        max_elements: most elements of a tile, (N, K, R, W).
    """
    num_images, num_maps, num_rows, _ = maps.shape
    height, width = size
    tile_rows = max(1, max_elements // max(1, num_images * num_maps * width))
    scale = num_rows / height
    # Computed on both sides: the host needs the ends of a band, and a copy of the rest would wait for the device.
    centres = (torch.arange(height, dtype=torch.float64, device=maps.device) + 0.5) * scale - 0.5
    centres.clamp_(0, num_rows - 1)
    for start in range(0, height, tile_rows):
        rows = slice(start, min(start + tile_rows, height))
        above = centres[rows].floor().long()
        below = (above + 1).clamp(max=num_rows - 1)
        first, last = (int(min(max((row + 0.5) * scale - 0.5, 0), num_rows - 1)) for row in (start, rows.stop - 1))
        band = slice(first, min(last + 1, num_rows - 1) + 1)
        yield RowTile(rows, band, above - first, below - first, (centres[rows] - above).unsqueeze(1))


def upsample(band: Tensor, tile: RowTile, width: int) -> Tensor:
    """The tile (N, K, R, W), at least float32, of its band (N, K, b, w) of the maps."""
    band = band.to(torch.promote_types(band.dtype, torch.float32))
    above, below = band.index_select(2, tile.above), band.index_select(2, tile.below)
    rows = torch.lerp(above, below, tile.weight.to(band.dtype))
    return F.interpolate(rows, size=(rows.shape[2], width), mode="bilinear")
