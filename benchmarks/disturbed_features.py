"""Training data on which a count says something else than what has been learnt; test samples stay as they are."""

import numpy as np
import torch
from made_features import NUM_FEATURES, Drawn, Mixture
from torch import Tensor

from equigrad.data.frequency import Counts

COPIES = 10
COPY_NOISE = 0.2
WRONG_LABELS = 0.2


class Redundant(Drawn):
    """Half of the categories come ten times as often, as near copies of their centre that teach little."""

    def __init__(self, mixture: Mixture, seed: int) -> None:
        super().__init__(mixture, seed)
        self.is_copied = torch.rand(len(self.centres), generator=self.generator) < 0.5
        self.frequencies = torch.as_tensor(mixture.category_counts) * torch.where(self.is_copied, COPIES, 1)
        self.draw_by(self.frequencies)

    @property
    def known_counts(self) -> Counts:
        return self.frequencies.numpy()

    def batch(self) -> tuple[Tensor, Tensor]:
        labels = self.labels(self.mixture.batch_size)
        is_copy = self.is_copied[labels] & (torch.rand(len(labels), generator=self.generator) > 1 / COPIES)
        noise = torch.randn(len(labels), NUM_FEATURES, generator=self.generator)
        return self.centres[labels] + noise * torch.where(is_copy, COPY_NOISE, 1.0)[:, None], labels


class EasyNegatives(Drawn):
    """Background rows are near zero and resemble no category."""

    def background(self, number: int) -> Tensor:
        return 0.1 * torch.randn(number, NUM_FEATURES, generator=self.generator)


class LabelNoise(Drawn):
    """A fifth of the labels is replaced by any category, so that those of rare ones are mostly wrong, and counted."""

    @property
    def known_counts(self) -> Counts:
        counts = self.mixture.category_counts
        mixed = (1 - WRONG_LABELS) * counts + WRONG_LABELS * counts.sum() / len(counts)
        return np.rint(mixed).astype(np.int64)

    def batch(self) -> tuple[Tensor, Tensor]:
        features, labels = super().batch()
        others = torch.randint(len(self.centres), labels.shape, generator=self.generator)
        is_wrong = torch.rand(len(labels), generator=self.generator) < WRONG_LABELS
        return features, torch.where(is_wrong, others, labels)


class Drifting(Drawn):
    """In the second half the most frequent category is the rarest, and so on; the known counts are of the first."""

    def __init__(self, mixture: Mixture, seed: int) -> None:
        super().__init__(mixture, seed)
        self.num_batches = 0

    def batch(self) -> tuple[Tensor, Tensor]:
        if self.num_batches == self.mixture.steps // 2:
            counts = torch.as_tensor(self.mixture.category_counts)
            ranks = counts.argsort(stable=True)
            reversed_counts = torch.empty_like(counts)
            reversed_counts[ranks] = counts[ranks.flip(0)]
            self.draw_by(reversed_counts)
        self.num_batches += 1
        return super().batch()
