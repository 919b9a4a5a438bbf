"""Gradient statistics over the course of a run: `statistics.npz`.

history = numpy.load("statistics.npz")
history["steps"]                             # (T,)   steps of the snapshots
history["criterion.statistics.positive"]     # (T, C) G_j^pos, by path in the model
history["criterion.statistics.negative"]     # (T, C) G_j^neg
history["criterion.seen"]                    # (T, C) training samples of the category so far
history["criterion.compared"], history["criterion.won"]    # (T, C) recent ones, and those of them that it wins
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from equigrad.arrays import read_npz
from equigrad.errors import one_line
from equigrad.files import atomic_write
from equigrad.meter.recognition import Recognition
from equigrad.meter.watched_losses import WatchedLosses
from equigrad.run_files import STATISTICS
from equigrad.statistics import GradientStatistics, find_statistics

Floats = NDArray[np.float64]


def tail_and_head_ratio(statistics: GradientStatistics) -> tuple[float, float]:
    """Median gradient ratio of the rarest and of the most frequent third of the categories, by positive gradient.

    A category without negative gradient counts as balanced, with ratio 1.
    """
    ratio = torch.where(statistics.ratio.isinf(), 1.0, statistics.ratio)
    by_frequency = ratio[statistics.positive.argsort(stable=True)]
    size = max(len(by_frequency) // 3, 1)
    return float(by_frequency[:size].median()), float(by_frequency[-size:].median())


def tail_and_head_won(recognition: Recognition) -> tuple[float, float]:
    """Mean share of samples won, over the least and over the most seen third of the categories that were seen."""
    is_seen = recognition.seen > 0
    share = recognition.share[is_seen][recognition.seen[is_seen].argsort(stable=True)]
    size = max(len(share) // 3, 1)
    return (float(share[:size].mean()), float(share[-size:].mean())) if len(share) else (0.0, 0.0)


class StatisticsHistory:
    """Snapshots of all gradient statistics of a model, kept in one file that is replaced as a whole.

    Args:
        folder: the run folder.
        last_step: step of the checkpoint that the run goes on from; later snapshots are dropped.
        warn: called with one line about a file that cannot be read; the history then starts again.
    """

    def __init__(self, folder: Path, last_step: int, warn: Callable[[str], None] = print) -> None:
        self.file = folder / STATISTICS
        self._snapshots: dict[int, dict[str, Floats]] = {}
        try:
            stored = _read(self.file) if self.file.exists() else {}
            self._snapshots = {step: arrays for step, arrays in stored.items() if step <= last_step}
        except ValueError as error:
            reason = one_line(error)
            warn(f"warning: {reason}; the gradient statistics up to step {last_step} are lost to reports")

    def record(self, step: int, model: nn.Module, watched: WatchedLosses | None = None) -> None:
        """Take a snapshot, in memory; nothing for a model without statistics whose losses are not watched."""
        arrays = {
            f"{path}.{sign}": getattr(statistics, sign).cpu().numpy().copy()
            for path, statistics in find_statistics(model).items()
            for sign in ("positive", "negative")
        }
        for path, recognition in watched.recognitions().items() if watched is not None else ():
            for name in ("seen", "compared", "won"):
                arrays[f"{path}.{name}"] = getattr(recognition, name).cpu().numpy().copy()
        if arrays:
            self._snapshots[step] = arrays

    def write(self) -> None:
        """Write all snapshots to the file. Once before each checkpoint is enough: a resumed run drops later ones."""
        if not self._snapshots:
            return
        steps = sorted(self._snapshots)
        # A model whose parts changed between two stages keeps only what all snapshots have.
        names = set.intersection(*(set(arrays) for arrays in self._snapshots.values()))
        columns = {name: np.stack([self._snapshots[step][name] for step in steps]) for name in sorted(names)}
        with atomic_write(self.file) as stream:
            np.savez(stream, steps=np.array(steps, dtype=np.int64), **columns)  # type: ignore[arg-type]


def _read(file: Path) -> dict[int, dict[str, Floats]]:
    """The snapshots in a file, by step; ValueError if it is not one that `write` made."""
    columns = read_npz(file)
    if "steps" not in columns:
        raise ValueError(f"{file}: expected an array named 'steps'")
    steps = columns.pop("steps")
    if steps.ndim != 1 or steps.dtype != np.int64 or (np.diff(steps) <= 0).any():
        raise ValueError(f"{file}: steps must be whole numbers that ascend")
    for name, column in columns.items():
        if column.ndim != 2 or len(column) != len(steps) or column.dtype != np.float64:
            raise ValueError(f"{file}: {name} must be ({len(steps)}, C) float64, got {column.shape} {column.dtype}")
    return {step: {name: column[row] for name, column in columns.items()} for row, step in enumerate(steps.tolist())}
