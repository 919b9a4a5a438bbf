"""Where the entries of logits (N, C, ...) are in memory, and which of them a program takes."""

from typing import Any, NamedTuple

import triton
import triton.language as tl
from torch import Tensor

TILE_ELEMENTS = 1024
"""Entries that a program of eight warps holds at a time: 4 for each thread. With 8 some kernels spill registers."""

MAX_ROW_ELEMENTS = 4096
"""With sixteen warps, 8 for each thread. A softmax over more categories reads its logits twice: 8192 would spill."""

MAX_WARPS = 16
"""1024 threads on an AMD GPU, the most that a program may have."""

COALESCED_POSITIONS = 8
"""Neighbouring float32 that fill a sector of memory: fewer in a row waste bandwidth."""

MAX_BLOCKS = 2**15
"""Of categories. The second side of a CUDA grid is less than 2^16."""

NUM_PROGRAMS = 2048
"""About how many programs fill any GPU several times; more would only leave more partial sums."""

MAX_TILES_PER_PROGRAM = 256
"""A float32 sum over more tiles would lose digits."""


class Layout:
    """Logits as (N, C, M) with their strides, without a copy; (N, C) and channels-last are (1, C, N).

    Args:
        logits: (N, C, ...).
    """

    def __init__(self, logits: Tensor) -> None:
        self.shape = logits.shape
        self.num_classes = logits.shape[1]
        # As in `BlockwisePass`: categories innermost in memory are rows.
        self.is_rows = logits.dim() == 2 or logits.movedim(1, -1).is_contiguous()
        view = self.view(logits)
        self.num_images, _, self.num_positions = view.shape

    def view(self, values: Tensor) -> Tensor:
        """What has the logits' shape as (N, C, M)."""
        values = values.detach()
        if not self.is_rows:
            return values.flatten(2)
        num_samples = self.shape[0] * self.shape[2:].numel()
        return values.movedim(1, -1).reshape(1, num_samples, self.num_classes).transpose(1, 2)

    def entries(self, name: str, values: Tensor | None) -> dict[str, Any]:
        """Kernel arguments of what has the logits' shape: the pointer and its three strides."""
        if values is None:
            return {name: None, f"{name}_n": 0, f"{name}_c": 0, f"{name}_m": 0}
        view = self.view(values)
        stride_n, stride_c, stride_m = view.stride()
        return {name: view, f"{name}_n": stride_n, f"{name}_c": stride_c, f"{name}_m": stride_m}

    def samples(self, values: Tensor) -> Tensor:
        """What has the labels' shape, one after another in the order of (N, M)."""
        return values.detach().contiguous()

    def qualities(self, quality: Tensor | None) -> dict[str, Any]:
        """Kernel arguments of the quality, which has the labels' shape or the logits'."""
        if quality is None or quality.shape == self.shape:
            return self.entries("quality", quality)
        return {"quality": self.samples(quality), "quality_n": self.num_positions, "quality_c": 0, "quality_m": 1}

    def empty_gradient(self, logits: Tensor) -> Tensor:
        """Memory for the gradient, of the logits' shape and dense in their layout."""
        if not self.is_rows or logits.dim() == 2:
            return logits.new_empty(self.shape)
        num_samples, num_classes, *places = self.shape
        return logits.new_empty(num_samples, *places, num_classes).movedim(-1, 1)


class Tiles(NamedTuple):
    """How samples and categories are cut: a program goes through its tiles and adds up their columns."""

    block_samples: int
    block_categories: int
    num_programs: int
    tiles_per_program: int
    num_blocks: int  # of categories
    num_warps: int

    @property
    def grid(self) -> tuple[int, int]:
        """Programs along the samples, and along the categories."""
        return self.num_programs, self.num_blocks


def column_tiles(layout: Layout) -> Tiles:
    """Tiles for a pass whose entries do not depend on each other."""
    categories, samples = (_power_of_2(size) for size in (layout.num_classes, layout.num_positions))
    if layout.is_rows:  # 128 neighbours in memory, and the rest along the other side
        samples = min(samples, TILE_ELEMENTS // min(128, categories))
        categories = min(categories, TILE_ELEMENTS // samples)
    else:
        least = categories // MAX_BLOCKS
        categories = min(categories, max(least, TILE_ELEMENTS // min(128, samples)))
        samples = min(samples, TILE_ELEMENTS // categories)
    num_blocks = triton.cdiv(layout.num_classes, categories)
    return _tiles(layout, samples, categories, max(1, NUM_PROGRAMS // num_blocks), num_warps=8)


def row_tiles(layout: Layout) -> Tiles | None:
    """Tiles that hold all categories of their samples; None if there are too many of them."""
    categories = _power_of_2(layout.num_classes)
    samples = max(1 if layout.is_rows else COALESCED_POSITIONS, TILE_ELEMENTS // categories)
    samples = min(samples, _power_of_2(layout.num_positions))
    if samples * categories > MAX_ROW_ELEMENTS:
        return None
    # Every program leaves two rows of partial sums: 32 samples for each keep them small beside the logits.
    num_programs = min(NUM_PROGRAMS // 2, max(128, layout.num_images * layout.num_positions // 32))
    return _tiles(
        layout, samples, categories, num_programs, num_warps=min(MAX_WARPS, max(8, samples * categories // 128))
    )


def sample_blocks(layout: Layout) -> tuple[int, int, int]:
    """For a loop over the categories: samples of a program, categories of a step, number of programs."""
    samples = 1 if layout.is_rows else min(4 * COALESCED_POSITIONS, _power_of_2(layout.num_positions))
    num_programs = max(1, layout.num_images * triton.cdiv(layout.num_positions, samples))
    return samples, min(_power_of_2(layout.num_classes), 2 * TILE_ELEMENTS // samples), num_programs


def _power_of_2(size: int) -> int:
    """The least power of 2 that is not smaller: what Triton can cut blocks of."""
    return int(triton.next_power_of_2(max(1, size)))


def _tiles(layout: Layout, samples: int, categories: int, num_programs: int, num_warps: int) -> Tiles:
    num_tiles = layout.num_images * triton.cdiv(layout.num_positions, samples)
    tiles_per_program = min(MAX_TILES_PER_PROGRAM, triton.cdiv(max(1, num_tiles), num_programs))
    num_programs = max(1, triton.cdiv(num_tiles, tiles_per_program))
    num_blocks = triton.cdiv(layout.num_classes, categories)
    return Tiles(samples, categories, num_programs, tiles_per_program, num_blocks, num_warps)


@triton.jit
def samples_of(tile, tiles_per_image, BLOCK_S: tl.constexpr):
    """Image and positions of a tile, in 64 bits. Tiles are counted in 32: a division in 64 takes a call and stack."""
    n = tile // tiles_per_image
    start = (tile - n * tiles_per_image).to(tl.int64) * BLOCK_S
    return n.to(tl.int64), start + tl.arange(0, BLOCK_S)


@triton.jit
def offsets(n, positions, columns, stride_n, stride_c, stride_m):
    """Of the entries of a tile, in 64 bits: logits may have more than 2^31."""
    rows = n * stride_n + positions * stride_m
    return rows[:, None] + (columns.to(tl.int64) * stride_c)[None, :]
