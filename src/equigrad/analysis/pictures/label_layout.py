"""Positions of labels in a picture: near their boxes, and apart from each other."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Box = tuple[float, float, float, float]  # left, top, right, bottom
Size = tuple[int, int]  # width, height
Pixels = NDArray[np.int64]

_NEAR = 4  # heights of a label
_CELLS_A_LINE = 2  # cells of the grid in the height of a label


class LabelLayout:
    """Finds a position for one label after the other.

    What is taken is kept in a coarse grid, and overlaps are read from its sums over rectangles. The time a label takes
    therefore does not grow with the number of labels.

    Args:
        area: width and height that the labels must stay in.
        height: height of a label.
    """

    def __init__(self, area: Size, height: int) -> None:
        self.area, self.height = area, height
        self.cell = max(height // _CELLS_A_LINE, 1)
        self.labels_in = np.zeros((-(-area[1] // self.cell), -(-area[0] // self.cell)), dtype=np.int64)

    def place(self, width: int, box: Box) -> Box:
        """The position that overlaps other labels least, then is nearest to its box, then to its upper left corner."""
        left, top, covered = self._best(width, box, reach=_NEAR * self.height)
        if covered:  # no room near the box
            left, top, _ = self._best(width, box, reach=max(self.area))
        right, bottom = left + width, top + self.height
        (first_row, last_row), (first_column, last_column) = self._cells(top, bottom), self._cells(left, right)
        self.labels_in[first_row:last_row, first_column:last_column] += 1
        return (left, top, right, bottom)

    def _best(self, width: int, box: Box, reach: int) -> tuple[int, int, int]:
        """Left and top of the best position within reach of the box, and how many cells of others it covers."""
        left, top = self._candidates(width, box, reach)
        right, bottom = left + width, top + self.height
        x1, y1, x2, y2 = box
        covered = self._covered(left, top, right, bottom)
        gap = np.maximum(left - x2, x1 - right).clip(0) + np.maximum(top - y2, y1 - bottom).clip(0)
        distance = np.abs(left - x1) + np.abs(bottom - y1)
        best = np.arange(len(left))
        for cost in (covered, gap, distance):
            best = best[cost[best] == cost[best].min()]
        return int(left[best[0]]), int(top[best[0]]), int(covered[best[0]])

    def _candidates(self, width: int, box: Box, reach: int) -> tuple[Pixels, Pixels]:
        """Left and top of positions at the corners of the box, and of a grid around it."""
        (x1, y1, x2, y2), height = box, self.height
        most_left, most_top = max(self.area[0] - width, 0), max(self.area[1] - height, 0)
        around = [np.arange(0, most + 1, step) for most, step in ((most_left, height), (most_top, max(height // 2, 1)))]
        across = around[0][(around[0] >= x1 - width - reach) & (around[0] <= x2 + reach)]
        down = around[1][(around[1] >= y1 - height - reach) & (around[1] <= y2 + reach)]
        across = np.concatenate([[x1, x2 + 1 - width], across]).clip(0, most_left)
        down = np.concatenate([[y1 - height, y1, y2 + 1], down]).clip(0, most_top)
        left, top = np.meshgrid(across.astype(np.int64), down.astype(np.int64))
        return left.ravel(), top.ravel()

    def _covered(self, left: Pixels, top: Pixels, right: Pixels, bottom: Pixels) -> Pixels:
        """How many cells of other labels each position covers."""
        sums = np.pad(self.labels_in.cumsum(0).cumsum(1), ((1, 0), (1, 0)))  # over the rectangle before each corner
        (first_row, last_row), (first_column, last_column) = self._cells(top, bottom), self._cells(left, right)
        # A label may be wider than the picture.
        last_row, last_column = last_row.clip(max=sums.shape[0] - 1), last_column.clip(max=sums.shape[1] - 1)
        above = sums[first_row, last_column] - sums[first_row, first_column]
        covered: Pixels = sums[last_row, last_column] - sums[last_row, first_column] - above
        return covered

    def _cells(self, start: Any, end: Any) -> tuple[Any, Any]:
        """The first cell that pixels reach into, and the one after the last."""
        return start // self.cell, -(-end // self.cell)
