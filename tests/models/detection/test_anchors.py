"""Grids of anchors."""

import pytest
import torch
from torch.testing import assert_close

from equigrad.models.detection.anchors import OCTAVE_SCALES, AnchorGrid
from equigrad.models.detection.boxes import areas, centres, sides


def test_levels_are_ordered_by_y_then_x_then_anchor():
    first, second = AnchorGrid((8, 16), (1, 2))([(2, 3), (1, 1)])
    assert first.shape == (12, 4)
    assert centres(first)[::2].tolist() == [[4, 4], [12, 4], [20, 4], [4, 12], [12, 12], [20, 12]]
    assert sides(first)[:2].tolist() == [[8, 8], [16, 16]]
    assert second.tolist() == [[0, 0, 16, 16], [-8, -8, 24, 24]]


def test_retinanet_has_three_scales_of_an_octave_and_three_ratios():
    grid = AnchorGrid((8,), OCTAVE_SCALES, ratios=(0.5, 1.0, 2.0))
    (anchors,) = grid([(1, 1)], dtype=torch.float64)
    assert grid.num_anchors == len(anchors) == 9
    size = sides(anchors).reshape(3, 3, 2)
    assert_close(size[..., 1] / size[..., 0], torch.tensor([0.5, 1, 2], dtype=torch.float64)[:, None].expand(3, 3))
    expected = torch.tensor([32.0, 32 * 2 ** (1 / 3), 32 * 2 ** (2 / 3)], dtype=torch.float64).square()
    assert_close(areas(anchors).reshape(3, 3), expected.expand(3, 3))


def test_without_scales_the_cells_tile_the_image():
    (cells,) = AnchorGrid((4,))([(2, 2)])
    assert cells.tolist() == [[0, 0, 4, 4], [4, 0, 8, 4], [0, 4, 4, 8], [4, 4, 8, 8]]


def test_centres_may_lie_on_the_corner_of_a_cell():
    (anchors,) = AnchorGrid((8,), (2,), centre_offset=0.0)([(1, 2)])
    assert anchors.tolist() == [[-8, -8, 8, 8], [0, -8, 16, 8]]


def test_legacy_anchors_of_the_published_baseline_have_integer_corners():
    (anchors,) = AnchorGrid((8,), (6, 8), legacy_pixels=True)([(1, 1)])
    assert anchors.tolist() == [[-20, -20, 27, 27], [-28, -28, 35, 35]]  # 3.5 -+ 23.5 and 31.5
    assert sides(anchors, legacy_pixels=True).tolist() == [[48, 48], [64, 64]]


def test_legacy_ratios_are_rounded_before_they_are_scaled():
    (anchors,) = AnchorGrid((16,), (8,), ratios=(0.5, 2.0), legacy_pixels=True)([(1, 1)])
    # The anchors every Faster R-CNN began with: 23 x 12 and 11 x 22, times 8.
    assert anchors.tolist() == [[-84, -40, 99, 55], [-36, -80, 51, 95]]


def test_the_latest_grid_is_kept_until_sizes_or_type_change():
    grid = AnchorGrid((8,))
    first = grid([(2, 3)])
    assert grid([(2, 3)])[0] is first[0]
    assert grid([(3, 2)])[0] is not first[0]
    assert grid([(2, 3)], dtype=torch.float64)[0].dtype == torch.float64


@pytest.mark.parametrize("options", [{"strides": ()}, {"strides": (0,)}, {"strides": (8,), "scales": (-1,)}])
def test_a_grid_without_size_is_refused(options):
    with pytest.raises(ValueError, match="must be one or more numbers above 0"):
        AnchorGrid(**options)


def test_levels_must_be_as_many_as_strides():
    with pytest.raises(ValueError, match="expected feature sizes of 2 levels, got 1"):
        AnchorGrid((8, 16))([(1, 1)])
