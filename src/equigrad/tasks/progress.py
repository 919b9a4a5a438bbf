"""How far a long test has come: a line now and then on stderr, in a terminal and in the log of a cluster alike."""

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any

SECONDS_BETWEEN_LINES = 30.0

Batch = tuple[Any, Sequence[Any]]


def with_progress(
    batches: Iterable[Batch], num_images: int, *, seconds: float = SECONDS_BETWEEN_LINES
) -> Iterator[Batch]:
    """The batches of a test of so many images; a line every `seconds` says how many are done, and how fast.

    Args:
        batches: images and a target of each.
        num_images: of all batches.
        seconds: between two lines; a test that is over sooner says nothing.
    """
    done, start = 0, time.monotonic()
    next_line = start + seconds
    for batch in batches:
        yield batch
        done += len(batch[1])
        now = time.monotonic()
        if now >= next_line:
            rate = done / (now - start)
            left = timedelta(seconds=round((num_images - done) / rate))
            print(f"test: {done:,} of {num_images:,} images, {rate:.3g} images/s, {left} left", file=sys.stderr)
            next_line = now + seconds
