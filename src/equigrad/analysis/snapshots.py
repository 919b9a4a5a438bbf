"""What `statistics.npz` has: gradient statistics and samples won over the course of a training."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equigrad.arrays import read_npz

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StatisticsOverTime:
    """Snapshots of one `GradientStatistics` at T steps."""

    steps: Ints  # (T,)
    positive: Floats  # (T, C)  G_j^pos
    negative: Floats  # (T, C)  G_j^neg

    @property
    def ratio(self) -> Floats:
        """G_j, (T, C); NaN as long as a category has no negative gradient."""
        nothing = np.full_like(self.positive, np.nan)
        return np.divide(self.positive, self.negative, out=nothing, where=self.negative > 0)


@dataclass(frozen=True, eq=False)
class RecognitionOverTime:
    """Which of its own training samples each category wins, at T steps; see `equigrad.meter.recognition`."""

    steps: Ints  # (T,)
    seen: Floats  # (T, C) samples so far
    share: Floats  # (T, C) of the recent ones, those won; NaN before the first


def read_snapshots(file: Path) -> tuple[dict[str, StatisticsOverTime], dict[str, RecognitionOverTime]]:
    """Statistics and samples won, by path in the model; ValueError with one line if the file is broken."""
    columns = read_npz(file)
    steps = columns.pop("steps", None)
    if steps is None or steps.ndim != 1 or not np.issubdtype(steps.dtype, np.integer) or len(steps) == 0:
        raise ValueError(f"{file}: steps must be (T,) whole numbers with T >= 1")
    if (np.diff(steps) <= 0).any():
        raise ValueError(f"{file}: steps must ascend")
    steps = steps.astype(np.int64)
    paths, losses = (
        [name.removesuffix(ending) for name in columns if name.endswith(ending)] for ending in (".positive", ".seen")
    )
    statistics = {
        path: StatisticsOverTime(steps, *_sums(file, path, ("positive", "negative"), steps, columns)) for path in paths
    }
    return statistics, {path: _recognition(file, path, steps, columns) for path in losses}


def _recognition(file: Path, path: str, steps: Ints, columns: Mapping[str, NDArray[Any]]) -> RecognitionOverTime:
    seen, compared, won = _sums(file, path, ("seen", "compared", "won"), steps, columns)
    share = np.divide(won, compared, out=np.full_like(won, np.nan), where=compared > 0)
    return RecognitionOverTime(steps, seen, share)


def _sums(
    file: Path, path: str, names: Sequence[str], steps: Ints, columns: Mapping[str, NDArray[Any]]
) -> list[Floats]:
    """Columns (T, C) of one path, checked."""
    found: list[Floats] = []
    for name in (f"{path}.{name}" for name in names):
        sums = columns.get(name)
        if sums is None:
            raise ValueError(f"{file}: {name} is missing")
        is_like_first = not found or sums.shape == found[0].shape
        if sums.ndim != 2 or len(sums) != len(steps) or not is_like_first or sums.shape[1] == 0:
            raise ValueError(f"{file}: {name} must be ({len(steps)}, C), got {sums.shape}")
        if not np.issubdtype(sums.dtype, np.number) or not np.isfinite(sums).all() or (sums < 0).any():
            raise ValueError(f"{file}: {name} must be finite numbers from 0")
        found.append(sums.astype(np.float64))
    return found
