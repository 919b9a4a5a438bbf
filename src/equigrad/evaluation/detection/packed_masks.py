"""Many masks as compressed run lengths (the text of `counts` in COCO files) in one buffer, checked before use.

A number is written in groups of five bits, the lowest first; each group is one character, `0` plus its value. A value
of 32 or more means that another group follows; 16 in the last group marks a negative number. From the fourth run on,
the difference to the run before the last is written.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equigrad.evaluation.detection.annotations import Flags, Ints

MAX_GROUPS = 7  # 35 bits: more than any run of an image needs


@dataclass(frozen=True, eq=False)
class PackedMasks:
    """N masks: the text of mask i is `text[offsets[i] : offsets[i + 1]]`."""

    text: NDArray[np.uint8]
    offsets: Ints  # (N + 1,)

    @classmethod
    def of(cls, counts: Sequence[bytes]) -> "PackedMasks":
        """Pack masks, each given as compressed run lengths."""
        lengths = np.fromiter(map(len, counts), np.int64, len(counts))
        return cls(np.frombuffer(b"".join(counts), np.uint8), np.concatenate([[0], np.cumsum(lengths)]))

    @classmethod
    def joined(cls, parts: Sequence["PackedMasks"]) -> "PackedMasks":
        """All parts in one, in order."""
        starts = np.cumsum([0, *(len(part.text) for part in parts)])
        offsets = [part.offsets[:-1] + start for part, start in zip(parts, starts, strict=False)]
        text = np.concatenate([np.zeros(0, np.uint8), *(part.text for part in parts)])
        return cls(text, np.concatenate([*offsets, [len(text)]]).astype(np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def counts(self, index: int) -> bytes:
        """The compressed run lengths of a mask."""
        return self.text[self.offsets[index] : self.offsets[index + 1]].tobytes()

    def rle(self, index: int, size: Sequence[int]) -> dict[str, Any]:
        """A mask of an image of (height, width) in the form that pycocotools takes."""
        return {"size": [int(size[0]), int(size[1])], "counts": self.counts(index)}

    def take(self, indices: Ints) -> "PackedMasks":
        """The masks with these indices, in this order."""
        lengths = np.diff(self.offsets)[indices]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        shifts = np.repeat(self.offsets[indices] - offsets[:-1], lengths)
        return PackedMasks(self.text[shifts + _range(offsets[-1])], offsets)


def are_valid(masks: PackedMasks, num_pixels: Ints) -> Flags:
    """Whether each mask is well-formed and covers exactly the pixels of its image, (N,).

    pycocotools does not check its input: a text that ends in the middle of a number makes it read beyond the end.
    """
    groups = masks.text.astype(np.int64) - 48
    owner = np.repeat(_range(len(masks)), np.diff(masks.offsets))
    is_last = (groups & 32) == 0
    valid = np.diff(masks.offsets) > 0
    valid[owner[(groups < 0) | (groups > 63)]] = False
    valid[valid] = is_last[masks.offsets[1:][valid] - 1]
    keep = valid[owner]
    groups, owner, is_last = groups[keep], owner[keep], is_last[keep]
    ends = np.flatnonzero(is_last)
    starts = np.concatenate([[0], ends + 1])[:-1].astype(np.int64)
    ranks = _range(len(groups)) - np.repeat(starts, ends + 1 - starts)  # of a group within its number
    valid[owner[ranks >= MAX_GROUPS]] = False
    numbers = _sums((groups & 31) << (5 * np.minimum(ranks, MAX_GROUPS)), starts)
    widths = 5 * np.minimum(ends + 1 - starts, MAX_GROUPS)
    numbers -= np.where(groups[ends] & 16, np.int64(1) << widths, 0)
    runs, owner = _undo_differences(numbers, owner[ends]), owner[ends]
    valid[owner[runs < 0]] = False
    totals = np.bincount(owner, runs, minlength=len(masks))
    valid &= totals == num_pixels
    return valid


def _undo_differences(numbers: Ints, owner: Ints) -> Ints:
    """Runs from the written differences: in each mask the first run, then cumulative sums over odd and even indices."""
    counts = np.bincount(owner)
    first = (np.cumsum(counts) - counts)[owner]
    index = _range(len(owner)) - first
    num_odd = (counts // 2)[owner]
    # The first run, then those with odd index, then the others with even index.
    order = first + np.where(index % 2, (index + 1) // 2, np.where(index == 0, 0, num_odd + index // 2))
    sums = np.empty_like(numbers)
    sums[order] = numbers
    sums = np.cumsum(sums)
    is_start = np.zeros(len(sums), np.bool_)
    is_start[order[index < 3]] = True
    starts = np.flatnonzero(is_start)
    before = np.concatenate([[0], sums])[starts]
    runs: Ints = (sums - np.repeat(before, np.diff(np.concatenate([starts, [len(sums)]]))))[order]
    return runs


def _sums(values: Ints, starts: Ints) -> Ints:
    sums: Ints = np.add.reduceat(values, starts) if len(starts) else np.zeros(0, np.int64)
    return sums


def _range(count: int) -> Ints:
    return np.arange(count, dtype=np.int64)
