"""How long the tail of a training set is, and how much of it the test set measures."""

from dataclasses import dataclass

import numpy as np

from equigrad.data.frequency import Counts, shot_split


@dataclass(frozen=True, eq=False)
class Tail:
    """The training and test samples of C categories.

    Args:
        images: training images of each category, (C,).
        amounts: what the loss sees of each: images, objects or pixels, (C,).
        tested: whether the test set has it, (C,) bool.
        unit: what `amounts` counts.
    """

    images: Counts
    amounts: Counts
    tested: Counts
    unit: str = "images"

    @property
    def num_seen(self) -> int:
        """Categories with at least one training sample."""
        return int(np.count_nonzero(self.images))

    @property
    def imbalance(self) -> float:
        """Amount of the most frequent category over that of the rarest one that occurs; 1 without any."""
        present = self.amounts[self.amounts > 0]
        return float(present.max() / present.min()) if len(present) else 1.0

    @property
    def gini(self) -> float:
        """0 if all categories that occur are equally frequent, near 1 if one has nearly everything."""
        present = np.sort(self.amounts[self.amounts > 0]).astype(np.float64)
        if not len(present):
            return 0.0
        ranks = np.arange(1, len(present) + 1)
        return float((2 * ranks - len(present) - 1) @ present / (len(present) * present.sum()))

    @property
    def tested_few(self) -> float:
        """Of the categories that are trained and tested, the share with fewer than 20 training images."""
        measured = (self.images > 0) & self.tested.astype(bool)
        few = measured & (self.images < 20)
        return float(few.sum() / max(measured.sum(), 1))

    def __str__(self) -> str:
        groups = shot_split(self.images)
        few = groups["few"][self.images[groups["few"]] > 0]
        share = 100 * self.amounts[few].sum() / max(self.amounts.sum(), 1)
        present = self.amounts[self.amounts > 0]
        spread = f", {present.max():,} to {present.min():,} {self.unit} each" if len(present) else ""
        return (
            f"{len(self.images):,} categories{spread}, imbalance factor {self.imbalance:,.4g}, Gini {self.gini:.2f}; "
            f"{len(groups['many']):,} many-, {len(groups['medium']):,} medium- and {len(few):,} few-shot by images "
            f"(the few have {share:.1f} % of the {self.unit})"
        )
