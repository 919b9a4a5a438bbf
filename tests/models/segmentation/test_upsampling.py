import torch
import torch.nn.functional as F
from hypothesis import given, strategies as st
from torch.testing import assert_close

from equigrad.models.segmentation.upsampling import row_tiles, upsample

sides = st.integers(1, 12)


@given(sides, sides, st.integers(1, 40), st.integers(1, 40), st.integers(1, 300), st.integers(0, 1000))
def test_tiles_put_together_are_the_interpolated_maps(rows, columns, height, width, max_elements, seed):
    maps = torch.randn(2, 3, rows, columns, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    tiles = list(row_tiles(maps, (height, width), max_elements))
    parts = [upsample(maps[:, :, tile.band], tile, width) for tile in tiles]
    assert_close(torch.cat(parts, dim=2), F.interpolate(maps, size=(height, width), mode="bilinear"))
    assert all(part.numel() <= max(max_elements, 2 * 3 * width) for part in parts)
    assert torch.cat([torch.arange(height)[tile.rows] for tile in tiles]).tolist() == list(range(height))


def test_two_rows_upsampled_by_hand():
    """Centres of 4 rows in units of 2: -1/4, 1/4, 3/4, 5/4, of which the first and the last are held at the border."""
    maps = torch.tensor([0.0, 8.0]).view(1, 1, 2, 1)
    (tile,) = row_tiles(maps, (4, 1))
    assert upsample(maps, tile, 1).flatten().tolist() == [0.0, 2.0, 6.0, 8.0]


def test_a_band_holds_no_more_rows_than_its_tile_needs():
    maps = torch.zeros(1, 1, 64, 64)
    bands = [tile.band for tile in row_tiles(maps, (512, 512), max_elements=8 * 512)]
    assert max(band.stop - band.start for band in bands) == 3


def test_half_precision_becomes_float32():
    maps = torch.zeros(1, 1, 2, 2, dtype=torch.bfloat16)
    (tile,) = row_tiles(maps, (4, 4))
    assert upsample(maps, tile, 4).dtype == torch.float32
