"""Views without copies, and tiles that cover every entry within their bounds."""

import math

import pytest
import torch
from hypothesis import given, strategies as st

from equigrad.losses.kernels.layout import (
    MAX_ROW_ELEMENTS,
    MAX_TILES_PER_PROGRAM,
    MAX_WARPS,
    NUM_PROGRAMS,
    TILE_ELEMENTS,
    Layout,
    column_tiles,
    row_tiles,
    sample_blocks,
)
from losses.kernels.batches import in_layout

SHAPES = st.tuples(
    st.integers(0, 300_000),
    st.one_of(st.integers(1, 40), st.integers(1, 1_000_000)),
    st.one_of(st.none(), st.integers(0, 300_000)),
)


def layout_of(shape):
    return Layout(torch.empty([size for size in shape if size is not None], device="meta"))


@given(SHAPES)
def test_tiles_cover_all_samples_and_categories(shape):
    layout = layout_of(shape)
    for tiles in (column_tiles(layout), row_tiles(layout)):
        if tiles is None:
            continue
        assert tiles.block_categories * tiles.num_blocks >= layout.num_classes
        num_tiles = layout.num_images * math.ceil(layout.num_positions / tiles.block_samples)
        assert tiles.num_programs * tiles.tiles_per_program >= num_tiles
        assert (tiles.num_programs - 1) * tiles.tiles_per_program < max(1, num_tiles)  # no program without a tile
        assert tiles.tiles_per_program <= MAX_TILES_PER_PROGRAM
        assert tiles.num_blocks < 2**16  # CUDA's bound of the second side of a grid
        assert tiles.num_programs < 2**31


@given(SHAPES)
def test_tiles_fit_into_registers_and_their_partial_sums_are_few(shape):
    layout = layout_of(shape)
    columns, rows = column_tiles(layout), row_tiles(layout)
    assert columns.block_samples * columns.block_categories <= TILE_ELEMENTS
    samples, categories, _ = sample_blocks(layout)
    assert samples * categories <= 2 * TILE_ELEMENTS
    for tiles in (columns, rows):
        if tiles is not None:
            num_tiles = layout.num_images * math.ceil(layout.num_positions / tiles.block_samples)
            least = math.ceil(num_tiles / MAX_TILES_PER_PROGRAM)
            assert tiles.num_programs <= max(1, least, 2 * NUM_PROGRAMS)
    if rows is not None:
        assert rows.num_blocks == 1
        assert rows.block_samples * rows.block_categories <= MAX_ROW_ELEMENTS
        assert rows.block_samples * rows.block_categories <= 256 * rows.num_warps
        assert rows.num_warps <= MAX_WARPS


@pytest.mark.parametrize(("num_classes", "is_whole"), [(1, True), (1203, True), (4096, True), (4097, False)])
def test_a_sample_of_up_to_4096_categories_is_held_whole(num_classes, is_whole):
    assert (row_tiles(layout_of((20, num_classes, None))) is not None) == is_whole


@pytest.mark.parametrize("layout", ["dense", "channels last", "columns of a larger tensor", "transposed"])
@pytest.mark.parametrize("places", [(), (4,), (2, 3)])
def test_logits_are_not_copied_and_the_gradient_is_dense_in_their_layout(layout, places):
    logits = in_layout(torch.rand(5, 3, *places), layout)
    view = Layout(logits).view(logits)
    if layout != "transposed" or len(places) < 2:
        assert view.data_ptr() == logits.data_ptr()
    gradient = Layout(logits).empty_gradient(logits)
    assert gradient.shape == logits.shape
    assert gradient.is_contiguous() or gradient.movedim(1, -1).is_contiguous()
    assert Layout(gradient).view(gradient).data_ptr() == gradient.data_ptr()
    if layout in ("dense", "channels last"):
        assert gradient.stride() == logits.stride()
