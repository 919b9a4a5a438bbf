"""Lines for the user besides those of training steps: how long the tail is, and the progress of an evaluation."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

from equigrad.data.frequency import Counts
from equigrad.engine.distributed import ranks
from equigrad.engine.reporting.timing import duration
from equigrad.engine.train import Training
from equigrad.terminal import printable

SECONDS_TO_FIRST_LINE = 5.0
SECONDS_BETWEEN_LINES = 30.0
FEW = (10, 100)

Batch = tuple[Any, Any]  # images, N of them, and their targets


def data_summary(num_images: int, counts: Counts, *, unit: str = "images") -> str:
    """How many images and categories there are, and how long the tail is; arguments as in `tail_summary`."""
    return f"{num_images:,} images, {len(counts):,} categories; {tail_summary(counts, unit=unit)}"


def tail_summary(counts: Counts, *, unit: str = "images") -> str:
    """How long the tail is.

    Args:
        counts: training images or objects of each category, (C,).
        unit: what is counted; of images, the categories that have few are counted too.
    """
    present = counts[counts > 0]
    parts = []
    if len(present):
        ratio = f"{present.max() / present.min():,.4g}"
        parts.append(f"from {present.max():,} to {present.min():,} {unit} each, imbalance factor {ratio}")
    if len(present) < len(counts):
        num_empty = len(counts) - len(present)
        parts.append(f"{num_empty:,} {'category has' if num_empty == 1 else 'categories have'} none")
    if unit == "images":
        below = [f"{(counts < few).sum():,} have fewer than {few}" for few in FEW]
        parts.append(f"{', '.join(below)} images")
    return "; ".join(parts)


def tested_batches(batches: Iterable[Batch], num_images: int, training: Training | None) -> Iterator[Batch]:
    """The batches of a test: of so many images on this rank, which can be stopped if it belongs to a training."""
    stoppable = batches if training is None else training.until_stopped(batches)
    return with_progress(stoppable, num_images) if ranks()[0] == 0 else iter(stoppable)


class ProgressLine:
    """Prints to stderr from time to time how many images are done, in a terminal as in the log of a cluster.

    Args:
        name: what is being done; begins each line.
        first: seconds until the first line; work that ends sooner prints none.
        seconds: between two lines.
    """

    def __init__(
        self, name: str, *, first: float = SECONDS_TO_FIRST_LINE, seconds: float = SECONDS_BETWEEN_LINES
    ) -> None:
        self.name, self.seconds = name, seconds
        self.start = time.monotonic()
        self.next_line = self.start + first

    def __call__(self, done: int, num_images: int | None) -> None:
        """Report that `done` of `num_images` are done; None if their number is not known."""
        now = time.monotonic()
        if now < self.next_line:
            return
        rate = done / (now - self.start)
        line = f"{done:,} images, {rate:.3g} images/s"
        if num_images is not None:
            left = duration((num_images - done) / rate)
            line = f"{done:,} of {num_images:,} images, {rate:.3g} images/s, {left} left"
        print(printable(f"{self.name}: {line}"), file=sys.stderr)
        self.next_line = now + self.seconds


def with_progress(
    batches: Iterable[Batch],
    num_images: int | None,
    *,
    name: str = "test",
    first: float = SECONDS_TO_FIRST_LINE,
    seconds: float = SECONDS_BETWEEN_LINES,
) -> Iterator[Batch]:
    """The batches of `num_images` images, with lines about their progress as in `ProgressLine`."""
    done, line = 0, ProgressLine(name, first=first, seconds=seconds)
    for batch in batches:
        yield batch
        done += len(batch[0])
        line(done, num_images)
