"""What looks wrong in the gradient statistics of a run or of a checkpoint."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equigrad.analysis.doctor.finding import Finding
from equigrad.analysis.snapshots import Floats, Ints, StatisticsOverTime

_STUCK_RATIO = 0.05
_NUM_NAMED = 3


@dataclass(frozen=True, eq=False)
class Gathered:
    """Gradient statistics, with what is known of how they came about.

    Args:
        history: snapshots; a checkpoint has one, of step 0.
        names: names of the C categories; None if unknown.
        num_steps: that the training has; None if unknown.
        largest_positive: the most that the positive gradient of all categories can grow by in a step; None if unknown.
        num_skipped: batches left out because their gradient was not finite.
        tail_remedy: how to do more for rare categories.
    """

    history: StatisticsOverTime
    names: Sequence[str] | None = None
    num_steps: int | None = None
    largest_positive: float | None = None
    num_skipped: int = 0
    tail_remedy: str = "train with an equalization loss"


def statistics_findings(gathered: Gathered) -> list[Finding]:
    """All that looks wrong; without any gradient nothing else can be said."""
    if not (gathered.history.positive[-1] + gathered.history.negative[-1]).any():
        return [_untouched(gathered.history)]
    checks: tuple[Callable[[Gathered], Finding | None], ...] = (_still, _stuck, _never_seen, _polluted, _skipped)
    return [finding for check in checks if (finding := check(gathered)) is not None]


def _untouched(history: StatisticsOverTime) -> Finding:
    return Finding(
        "error",
        "statistics_untouched",
        "the loss has recorded no gradient, so it equals the plain loss",
        f"positive and negative sums of all {history.positive.shape[1]:,} categories are 0",
        "call the loss itself in training mode (criterion.train()), with gradients enabled",
    )


def _still(gathered: Gathered) -> Finding | None:
    history = gathered.history
    moved = (np.diff(history.positive, axis=0) != 0) | (np.diff(history.negative, axis=0) != 0)
    if len(moved) < 2 or moved[len(moved) // 2 :].any():
        return None
    last = np.flatnonzero(moved.any(axis=1))
    step = history.steps[last[-1] + 1] if len(last) else history.steps[0]
    return Finding(
        "error",
        "statistics_still",
        "the statistics do not change",
        f"the same sums from step {step:,} to step {history.steps[-1]:,}",
        "keep the loss in training mode (model.train() after each evaluation) and inside the model that is trained",
    )


def _stuck(gathered: Gathered) -> Finding | None:
    """A median category with hardly any positive gradient, and no better than at half-time, if that is known."""
    ratio = gathered.history.ratio
    end = _median(ratio[-1])
    if len(ratio) == 2 or end >= _STUCK_RATIO:
        return None
    if len(ratio) == 1:
        evidence = f"median {end:.2g}; a later checkpoint, or the run, shows whether it rises"
        return Finding("note", "ratio_low", "the gradient ratio is near 0", evidence, gathered.tail_remedy)
    middle = _median(ratio[len(ratio) // 2])
    if end > 1.1 * middle:
        return None
    return Finding(
        "warning",
        "ratio_stuck",
        "the gradient ratio is stuck near 0",
        f"median {end:.2g} at the end, {middle:.2g} at half-time",
        gathered.tail_remedy,
    )


def _never_seen(gathered: Gathered) -> Finding | None:
    history = gathered.history
    if gathered.num_steps is not None and 2 * history.steps[-1] < gathered.num_steps:
        return None  # it may still come
    absent: Ints = np.flatnonzero((history.positive[-1] == 0) & (history.negative[-1] > 0))
    if not len(absent):
        return None
    return Finding(
        "warning",
        "never_seen",
        f"{len(absent):,} of {history.positive.shape[1]:,} categories never had a training sample",
        f"no positive gradient: {_named(absent, gathered.names)}",
        "leave them out of the categories or add samples; equigrad data counts DATA shows how many each has",
    )


def _polluted(gathered: Gathered) -> Finding | None:
    """More gradient than the steps of the training can give: batches of an evaluation were added."""
    last, steps, largest = int(gathered.history.steps[-1]), gathered.num_steps, gathered.largest_positive
    total = float(gathered.history.positive[-1].sum())
    if steps is not None and last > steps:
        return polluted(f"statistics of step {last:,}, but {steps:,} steps of training")
    if last and largest is not None and total > 1.01 * largest * last:
        return polluted(f"positive gradient {total:,.4g}, where {last:,} steps give at most {largest * last:,.4g}")
    return None


def polluted(evidence: str) -> Finding:
    """Statistics with more in them than the training."""
    return Finding(
        "error",
        "statistics_polluted",
        "the statistics contain more than the training: validation batches were probably added",
        evidence,
        "evaluate with model.eval() and torch.no_grad(), or with another loss object; then train again",
    )


def _skipped(gathered: Gathered) -> Finding | None:
    if not gathered.num_skipped:
        return None
    return Finding(
        "warning",
        "batches_skipped",
        "batches were skipped in the statistics because their gradient was not finite",
        f"{gathered.num_skipped:,} batches",
        "lower the learning rate or use bf16 instead of fp16: --lr, --precision bf16",
    )


def _median(ratio: Floats) -> float:
    known = ratio[np.isfinite(ratio)]
    return float(np.median(known)) if len(known) else np.inf


def _named(labels: NDArray[np.int64], names: Sequence[str] | None) -> str:
    shown = [str(label) if names is None else names[label] for label in labels[:_NUM_NAMED].tolist()]
    return ", ".join(shown) + (" …" if len(labels) > _NUM_NAMED else "")
